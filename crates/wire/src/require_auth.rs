//! `require_auth`: the authentication methods that the server may request, as in libpq.

use std::str::FromStr;

use crate::ProtocolError;

/// An authentication method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// The server asked for nothing.
    None,
    Password,
    Md5,
    Scram,
}

/// Every name that may be listed, including methods that are not supported.
const NAMES: [&str; 7] = [
    "none",
    "password",
    "md5",
    "scram-sha-256",
    "gss",
    "sspi",
    "oauth",
];

impl Method {
    fn bit(self) -> u8 {
        1 << (self as u8)
    }

    fn describe(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// The methods that are refused; none at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequireAuth {
    refused: u8,
}

impl RequireAuth {
    pub(crate) fn check(self, method: Method) -> Result<(), ProtocolError> {
        if self.refused & method.bit() == 0 {
            Ok(())
        } else {
            Err(ProtocolError::MethodRefused(method.describe()))
        }
    }
}

impl FromStr for RequireAuth {
    type Err = String;

    /// Reads a comma-separated list of allowed methods, or of excluded methods with `!` before
    /// each.
    fn from_str(list: &str) -> Result<Self, String> {
        if list.is_empty() {
            return Ok(Self::default());
        }
        let negated = list.starts_with('!');
        let mut listed = 0_u8;
        for entry in list.split(',') {
            let name = entry.strip_prefix('!').unwrap_or(entry);
            if name.len() != entry.len() - usize::from(negated) {
                return Err(format!(
                    "require_auth {list:?} mixes allowed methods and, with \"!\", excluded ones"
                ));
            }
            let number = NAMES
                .iter()
                .position(|known| *known == name)
                .ok_or_else(|| {
                    format!("require_auth {name:?} is not one of {}", NAMES.join(", "))
                })?;
            if listed & (1 << number) != 0 {
                return Err(format!("require_auth names {name:?} twice"));
            }
            listed |= 1 << number;
        }
        Ok(Self {
            refused: if negated { listed } else { !listed },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(list: &str, method: Method) -> bool {
        let list: RequireAuth = list.parse().expect("a list");
        list.check(method).is_ok()
    }

    #[test]
    fn a_list_allows_or_refuses() {
        assert!(allows("", Method::None) && allows("", Method::Password));
        assert!(allows("scram-sha-256,md5", Method::Md5));
        assert!(!allows("scram-sha-256,md5", Method::Password));
        assert!(!allows("scram-sha-256", Method::None));
        assert!(!allows("!password,!none", Method::Password));
        assert!(!allows("!password,!none", Method::None));
        assert!(allows("!password", Method::Scram));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for list in ["md5,!none", "!md5,none", "md5,md5", "kerberos", "md5,", "!"] {
            assert!(list.parse::<RequireAuth>().is_err(), "{list}");
        }
    }
}
