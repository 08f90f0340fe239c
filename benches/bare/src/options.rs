//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

pub const USAGE: &str = "\
usage: bare load (--socket DIR | --host ADDRESS) --port N --user NAME --database NAME
                 [--script select-only|simple-update|tpcb-like] [--scale N] [--clients N]
                 [--seconds S] [--reactor epoll|io_uring]
       bare serve (--socket DIR | --host ADDRESS) --port N";

/// Address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    Tcp(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptName {
    SelectOnly,
    SimpleUpdate,
    TpcbLike,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reactor {
    Epoll,
    IoUring,
}

#[derive(Debug)]
pub struct LoadOptions {
    pub address: Address,
    pub user: String,
    pub database: String,
    pub script: ScriptName,
    pub scale: i32,
    pub clients: usize,
    pub seconds: f64,
    pub reactor: Reactor,
}

#[derive(Debug)]
pub enum Command {
    Load(LoadOptions),
    Serve { address: Address },
}

/// Return the options in the arguments, or the problem in them.
pub fn parse(arguments: &[String]) -> Result<Command, String> {
    let (command, rest) = arguments.split_first().ok_or("load or serve?")?;
    let given = Given::read(rest)?;
    let command = match command.as_str() {
        "load" => Command::Load(LoadOptions {
            address: given.address()?,
            user: given.required("--user")?.to_owned(),
            database: given.required("--database")?.to_owned(),
            script: given.script()?,
            scale: given.number("--scale", 1)?,
            clients: given.number("--clients", 1)?,
            seconds: given.number("--seconds", 1.0)?,
            reactor: given.reactor()?,
        }),
        "serve" => Command::Serve {
            address: given.address()?,
        },
        other => return Err(format!("{other}: load or serve?")),
    };
    if let Command::Load(options) = &command {
        check(options)?;
    }
    Ok(command)
}

fn check(options: &LoadOptions) -> Result<(), String> {
    if options.clients == 0 {
        return Err("--clients: at least 1".to_owned());
    }
    if !(1..=20_000).contains(&options.scale) {
        return Err("--scale: 1 to 20000".to_owned());
    }
    if !(0.0..=86_400.0).contains(&options.seconds) {
        return Err("--seconds: 0 to 86400".to_owned());
    }
    Ok(())
}

/// Options and their values, as written.
struct Given<'a>(Vec<(&'a str, &'a str)>);

const KNOWN: [&str; 10] = [
    "--socket",
    "--host",
    "--port",
    "--user",
    "--database",
    "--script",
    "--scale",
    "--clients",
    "--seconds",
    "--reactor",
];

impl<'a> Given<'a> {
    fn read(arguments: &'a [String]) -> Result<Self, String> {
        let pairs = arguments.chunks(2).map(|pair| match pair {
            [name, value] if KNOWN.contains(&name.as_str()) => Ok((name.as_str(), value.as_str())),
            [name, ..] => Err(format!("{name}: unknown, or without a value")),
            [] => Err(String::new()),
        });
        Ok(Self(pairs.collect::<Result<_, _>>()?))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        let mut found = self.0.iter().filter(|(given, _)| *given == name);
        found.next_back().map(|(_, value)| *value)
    }

    fn required(&self, name: &str) -> Result<&'a str, String> {
        self.get(name).ok_or_else(|| format!("{name} is missing"))
    }

    fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        text.parse()
            .map_err(|_| format!("{name}: {text} is not a number here"))
    }

    fn address(&self) -> Result<Address, String> {
        let port: u16 = self.number("--port", 5432)?;
        match (self.get("--socket"), self.get("--host")) {
            (Some(directory), None) => Ok(Address::Unix(
                PathBuf::from(directory).join(format!(".s.PGSQL.{port}")),
            )),
            (None, Some(host)) => Ok(Address::Tcp(format!("{host}:{port}"))),
            _ => Err("give either --socket or --host".to_owned()),
        }
    }

    fn script(&self) -> Result<ScriptName, String> {
        match self.get("--script").unwrap_or("select-only") {
            "select-only" => Ok(ScriptName::SelectOnly),
            "simple-update" => Ok(ScriptName::SimpleUpdate),
            "tpcb-like" => Ok(ScriptName::TpcbLike),
            other => Err(format!("--script: there is no {other}")),
        }
    }

    fn reactor(&self) -> Result<Reactor, String> {
        match self.get("--reactor").unwrap_or("epoll") {
            "epoll" => Ok(Reactor::Epoll),
            "io_uring" => Ok(Reactor::IoUring),
            other => Err(format!("--reactor: there is no {other}")),
        }
    }
}
