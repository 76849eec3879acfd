//! Names, the cache, other programs' stores, and fetching from a hub on loopback that does everything wrong.

mod cuts;
mod faults;
mod fetch;
mod loopback;
mod names;
mod stores;
