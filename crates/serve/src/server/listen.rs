//! Where a server listens: a TCP address, or a Unix socket.

use super::StartError;
use crate::options::ServeOptions;
#[cfg(unix)]
use std::path::PathBuf;
use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// A bound address.
pub(super) enum Listening {
    Tcp(TcpListener, SocketAddr, String),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixListener, PathBuf),
}

/// A connection of either kind.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

impl Listening {
    /// Binds what the options say.
    ///
    /// # Errors
    /// When the address is taken, or is none.
    pub fn open(options: &ServeOptions) -> Result<Listening, StartError> {
        let named = match options.host.strip_prefix("unix:") {
            Some(path) => path.to_owned(),
            None => format!("{}:{}", options.host, options.port),
        };
        let failed = |source| StartError::Listen { address: named.clone(), source };
        match options.host.strip_prefix("unix:") {
            #[cfg(unix)]
            Some(path) => unix(PathBuf::from(path)).map_err(failed),
            #[cfg(not(unix))]
            Some(_) => Err(failed(io::Error::other("this system has no Unix sockets"))),
            None => tcp(&options.host, options.port).map_err(failed),
        }
    }

    /// What clients put before paths.
    pub fn url(&self, scheme: &str) -> String {
        match self {
            Listening::Tcp(_, address, host) => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                format!("{scheme}://{host}:{}", address.port())
            }
            #[cfg(unix)]
            Listening::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    pub fn port(&self) -> u16 {
        match self {
            Listening::Tcp(_, address, _) => address.port(),
            #[cfg(unix)]
            Listening::Unix(..) => 0,
        }
    }

    /// True when only this machine reaches it, through a network.
    pub fn is_loopback(&self) -> bool {
        matches!(self, Listening::Tcp(_, address, _) if address.ip().is_loopback())
    }

    /// The same for the runtime.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn into_acceptor(self) -> io::Result<Acceptor> {
        match self {
            Listening::Tcp(listener, ..) => {
                listener.set_nonblocking(true)?;
                Ok(Acceptor::Tcp(tokio::net::TcpListener::from_std(listener)?))
            }
            #[cfg(unix)]
            Listening::Unix(listener, path) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::UnixListener::from_std(listener)?;
                Ok(Acceptor::Unix { listener, _file: SocketFile(path) })
            }
        }
    }
}

fn tcp(host: &str, port: u16) -> io::Result<Listening> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut last = io::Error::new(io::ErrorKind::NotFound, "there is no such address");
    for address in (host, port).to_socket_addrs()? {
        match TcpListener::bind(address) {
            Ok(listener) => {
                let address = listener.local_addr()?;
                return Ok(Listening::Tcp(listener, address, host.to_owned()));
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// A socket that a dead server left behind is in nobody's use: it refuses connections.
#[cfg(unix)]
fn unix(path: PathBuf) -> io::Result<Listening> {
    use std::os::unix::{fs::FileTypeExt, net};
    let is_socket = std::fs::symlink_metadata(&path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && net::UnixStream::connect(&path).is_err() {
        std::fs::remove_file(&path)?;
    }
    Ok(Listening::Unix(net::UnixListener::bind(&path)?, path))
}

/// Takes connections.
pub(super) enum Acceptor {
    Tcp(tokio::net::TcpListener),
    #[cfg(unix)]
    Unix {
        listener: tokio::net::UnixListener,
        _file: SocketFile,
    },
}

/// The file of a Unix socket, removed at the end.
#[cfg(unix)]
pub(super) struct SocketFile(PathBuf);

#[cfg(unix)]
impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may be gone already.
        _ = std::fs::remove_file(&self.0);
    }
}

impl Acceptor {
    /// The next connection and the address of its other end.
    ///
    /// # Errors
    /// What the system said; most errors concern one connection only.
    pub async fn accept(&self) -> io::Result<(Box<dyn ByteStream>, Option<IpAddr>)> {
        match self {
            Acceptor::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Tokens are small and must not wait for one another.
                _ = stream.set_nodelay(true);
                Ok((Box::new(stream), Some(peer.ip().to_canonical())))
            }
            #[cfg(unix)]
            Acceptor::Unix { listener, .. } => Ok((Box::new(listener.accept().await?.0), None)),
        }
    }
}
