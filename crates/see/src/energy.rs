//! Energy of the processor's packages, where the system tells it (RAPL).

use lamina_base::files::read_text;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where Linux tells it.
const FOLDER: &str = "/sys/class/powercap";

/// Counters of packages in microjoules, at one moment.
pub(crate) struct PackageEnergy(Vec<(PathBuf, u64)>);

impl PackageEnergy {
    /// The counters now; else why there are none.
    pub fn now() -> Result<PackageEnergy, String> {
        PackageEnergy::of(Path::new(FOLDER))
    }

    fn of(folder: &Path) -> Result<PackageEnergy, String> {
        let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        // `intel-rapl:0` is a package, `intel-rapl:0:1` a part of it.
        let package = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.strip_prefix("intel-rapl:").is_some_and(|number| number.parse::<u32>().is_ok())
        };
        let packages: Vec<PathBuf> = names.filter(package).collect();
        if packages.is_empty() {
            return Err("the system tells no energy of its processors".into());
        }
        let read = |path: PathBuf| match microjoules(&path, "energy_uj") {
            Some(energy) => Ok((path, energy)),
            None => Err(format!("{} can be read by root alone", path.join("energy_uj").display())),
        };
        packages.into_iter().map(read).collect::<Result<_, _>>().map(PackageEnergy)
    }

    /// Joules since then, of all programs; else why that is not known.
    pub fn joules_since(&self) -> Result<f64, String> {
        let since = |(path, before): &(PathBuf, u64)| {
            let now = microjoules(path, "energy_uj")?;
            // A counter begins anew behind its largest value.
            let range = if now < *before { microjoules(path, "max_energy_range_uj")? } else { 0 };
            Some((now + range).checked_sub(*before)? as f64 / 1e6)
        };
        let joules: Option<f64> = self.0.iter().map(since).sum();
        joules.ok_or_else(|| "the counters of energy went away meanwhile".into())
    }
}

fn microjoules(package: &Path, name: &str) -> Option<u64> {
    read_text(&package.join(name)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_counted_and_counters_begin_anew() {
        let folder = std::env::temp_dir().join(format!("lamina-energy-{}", std::process::id()));
        let write = |name: &str, file: &str, value: u64| {
            fs::create_dir_all(folder.join(name)).unwrap();
            fs::write(folder.join(name).join(file), format!("{value}\n")).unwrap();
        };
        assert!(PackageEnergy::of(&folder).is_err(), "there is no folder");
        for (name, energy) in
            [("intel-rapl:0", 1_000_000), ("intel-rapl:1", 9_000_000), ("intel-rapl:0:0", 5)]
        {
            write(name, "energy_uj", energy);
            write(name, "max_energy_range_uj", 10_000_000);
        }
        let before = PackageEnergy::of(&folder).unwrap();
        write("intel-rapl:0", "energy_uj", 1_500_000);
        write("intel-rapl:1", "energy_uj", 1_000_000);
        // Half a joule of one, and two of the other, which went round.
        assert_eq!(before.joules_since(), Ok(2.5));
        fs::remove_file(folder.join("intel-rapl:1/energy_uj")).unwrap();
        assert!(before.joules_since().is_err());
        assert!(PackageEnergy::of(&folder).is_err_and(|why| why.contains("root")));
        fs::remove_dir_all(&folder).unwrap();
    }
}
