//! What is remembered of sessions, each in a file of the tenant: a session that was active when its
//! server ended is lost.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cap_std::fs::{Dir, OpenOptions};
use serde::{Deserialize, Serialize};

use super::types::{SessionInfo, SessionStatus};
use super::{now, time};
use skillhost_skill::private;

/// The most sessions to remember; those that ended first are forgotten.
const MOST: usize = 1_000;
/// The most bytes of a record.
const BYTES: u64 = 64 << 10;

/// What is remembered of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    pub(super) status: SessionStatus,
    pub(super) skills: Vec<String>,
    pub(super) parent: Option<String>,
    pub(super) created: i64,
    pub(super) ended: Option<i64>,
}

/// The records of a tenant.
pub(super) struct Records {
    folder: Dir,
    /// The sessions that were active when the previous server ended.
    lost: Vec<String>,
    known: Mutex<BTreeMap<String, SessionRecord>>,
}

impl SessionRecord {
    pub(super) fn info(&self, id: &str) -> SessionInfo {
        SessionInfo {
            id: id.to_owned(),
            status: self.status,
            skills: self.skills.clone(),
            created: time(self.created),
            expires: None,
            ended: self.ended.map(time),
            parent: self.parent.clone(),
            disk: 0,
            disk_limit: 0,
            running: 0,
            policy: None,
        }
    }
}

impl Records {
    pub(super) fn open(folder: &Path) -> io::Result<Records> {
        let folder = Dir::from_std_file(private::open_or_create(folder)?.into());
        let mut records = Records { folder, lost: Vec::new(), known: Mutex::default() };
        let mut found = Vec::new();
        for entry in records.folder.entries()? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let mut text = Vec::new();
            entry.open()?.into_std().take(BYTES).read_to_end(&mut text)?;
            match serde_json::from_slice::<SessionRecord>(&text) {
                Ok(record) => found.push((name, record)),
                // A server that was killed while it wrote.
                Err(_) => records.folder.remove_file(&name)?,
            }
        }
        for (id, record) in found {
            let record = match record.status {
                SessionStatus::Active => {
                    records.lost.push(id.clone());
                    SessionRecord { status: SessionStatus::Lost, ended: Some(now()), ..record }
                }
                _ => record,
            };
            records.put(&id, record);
        }
        Ok(records)
    }

    /// Returns the sessions that the previous server has lost.
    pub(super) fn lost(&self) -> &[String] {
        &self.lost
    }

    pub(super) fn get(&self, id: &str) -> Option<SessionRecord> {
        self.known().get(id).cloned()
    }

    /// Returns all records, with the time of creation.
    pub(super) fn all(&self) -> Vec<(i64, SessionInfo)> {
        self.known().iter().map(|(id, record)| (record.created, record.info(id))).collect()
    }

    /// Stores a record in place of the one before. An error is logged: the session matters more.
    pub(super) fn put(&self, id: &str, record: SessionRecord) {
        let store = || -> io::Result<()> {
            let text = serde_json::to_vec(&record)?;
            let options = &mut OpenOptions::new();
            options.write(true).create(true).truncate(true);
            self.folder.open_with(id, options)?.write_all(&text)
        };
        if let Err(error) = store() {
            tracing::error!(session = id, %error, "cannot store the record of a session");
        }
        let mut known = self.known();
        known.insert(id.to_owned(), record);
        while known.len() > MOST {
            let ended = known.iter().filter_map(|(id, record)| Some((record.ended?, id.clone())));
            let Some((_, oldest)) = ended.min() else { return };
            known.remove(&oldest);
            self.folder.remove_file(&oldest).ok();
        }
    }

    /// Forgets sessions that ended before this time.
    pub(super) fn forget(&self, before: i64) {
        let mut known = self.known();
        let old: Vec<String> = known
            .iter()
            .filter(|(_, record)| record.ended.is_some_and(|ended| ended < before))
            .map(|(id, _)| id.clone())
            .collect();
        for id in old {
            known.remove(&id);
            self.folder.remove_file(&id).ok();
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, SessionRecord>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own folders")]
mod tests {
    use super::*;

    #[test]
    fn an_active_session_is_lost_with_its_server_and_others_stay_as_they_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let record = |status, ended| SessionRecord {
            status,
            skills: vec!["a".into()],
            parent: None,
            created: 1,
            ended,
        };
        let records = Records::open(&path).unwrap();
        records.put("one", record(SessionStatus::Active, None));
        records.put("two", record(SessionStatus::Ended, Some(2)));
        std::fs::write(path.join("three"), "{").unwrap();
        let records = Records::open(&path).unwrap();
        let status = |id: &str| records.get(id).map(|record| record.status);
        assert_eq!(status("one"), Some(SessionStatus::Lost));
        assert_eq!(records.lost(), ["one"]);
        assert_eq!(status("two"), Some(SessionStatus::Ended));
        assert_eq!(status("three"), None);
        records.forget(3);
        assert_eq!((status("two"), status("one")), (None, Some(SessionStatus::Lost)));
        for number in 0..MOST {
            records.put(&format!("{number:04}"), record(SessionStatus::Ended, Some(10)));
        }
        assert_eq!(records.all().len(), MOST);
    }
}
