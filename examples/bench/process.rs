//! Servers of a round, each a process of its own: this program again, with a hidden role.
//!
//! A server says one line, `ready <address> <token>`, takes orders on its standard input, one a line, and ends with it.

use super::Outcome;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A server that runs until it is dropped.
pub struct Server {
    /// Where it listens.
    pub url: String,
    /// The credential that it takes.
    pub token: String,
    process: Child,
    orders: Option<ChildStdin>,
    words: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server in a role; it may use the directory.
    pub fn start(role: &str, dir: &Path) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--role", role, "--dir"])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let words = process.stdout.take().ok_or("a server has no output")?;
        let orders = process.stdin.take();
        let mut server = Self {
            url: String::new(),
            token: String::new(),
            process,
            orders,
            words: BufReader::new(words),
        };
        let line = server.hear()?;
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("ready"), Some(addr), Some(token)) => {
                server.url = format!("http://{addr}");
                server.token = token.to_owned();
                Ok(server)
            }
            _ => Err(format!("the {role} server did not begin: {line}").into()),
        }
    }

    /// Gives an order.
    pub fn order(&mut self, order: &str) -> Outcome<()> {
        let orders = self.orders.as_mut().ok_or("the server is told to end")?;
        writeln!(orders, "{order}")?;
        Ok(orders.flush()?)
    }

    /// Waits for a line.
    pub fn hear(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.words.read_line(&mut line)? == 0 {
            return Err("a server of the benchmark has ended; its words are above".into());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.orders.take());
        // A server that does not end by itself is of no use to anybody; whether it did shows nowhere.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In a server: says that it is ready, then does what each order says until there are no more.
pub async fn serve(
    addr: std::net::SocketAddr,
    token: &str,
    mut order: impl AsyncFnMut(&str) -> Outcome<String>,
) -> Outcome<()> {
    println!("ready {addr} {token}");
    let next = || {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    };
    loop {
        let line = tokio::task::spawn_blocking(next).await??;
        if line.is_empty() {
            return Ok(());
        }
        println!("{}", order(line.trim_end()).await?);
    }
}
