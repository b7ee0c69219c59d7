//! Who requested a run: the user of the host, and the session of the client, if there is one.

use std::io::Read as _;
use std::sync::OnceLock;

use serde::Serialize;

/// The user of the operating system whose process is the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct UserRecord {
    /// The user's number.
    pub uid: u32,
    /// The name in `/etc/passwd`, if it has one there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The session that requested a run. A client chooses its own name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SessionRecord {
    /// The session's id; absent for a request without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name that the client gave, at most 64 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

/// The most characters of a client's name.
const MAX_CLIENT: usize = 64;

/// The most bytes of `/etc/passwd` that are searched.
const MAX_PASSWD: u64 = 1 << 20;

impl UserRecord {
    /// Returns the user of this process. `$USER` is ignored, because anyone can set it.
    pub fn of_process() -> &'static UserRecord {
        static USER: OnceLock<UserRecord> = OnceLock::new();
        USER.get_or_init(|| {
            let uid = rustix::process::getuid().as_raw();
            UserRecord { uid, name: passwd().and_then(|text| name_of(&text, uid)) }
        })
    }
}

impl SessionRecord {
    /// Creates the record of a session. Cuts a long client name.
    pub fn new(id: Option<&str>, client: Option<&str>) -> SessionRecord {
        SessionRecord {
            id: id.map(str::to_owned),
            client: client.map(|client| client.chars().take(MAX_CLIENT).collect()),
        }
    }
}

fn passwd() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the system's list of users")]
    let file = std::fs::File::open("/etc/passwd").ok()?;
    // Most systems have fewer bytes of users: one read is enough.
    let mut bytes = Vec::with_capacity(8 << 10);
    file.take(MAX_PASSWD).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Finds the name of a user in the text of `/etc/passwd`.
fn name_of(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_third_field_of_passwd() {
        let passwd = "root:x:0:0::/root:/bin/sh\n\nodd\nanna:x:1000:7:,,:/home/anna:/bin/sh\n";
        assert_eq!(name_of(passwd, 1000).as_deref(), Some("anna"));
        assert_eq!(name_of(passwd, 7), None);
    }

    #[test]
    fn long_client_names_are_cut() {
        let session = SessionRecord::new(None, Some(&"\u{20ac}".repeat(100)));
        assert_eq!(session.client.unwrap().chars().count(), MAX_CLIENT);
    }
}
