//! The form in which a cache is kept between runs: one line of JSON, and then the bodies. Only the
//! host writes and reads it, in the folder of the skill's state; what does not parse is dropped.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::rules::Freshness;
use super::{Entries, Entry, Key, MAX_ENTRIES, ResponseCache};
use crate::http::headers;

/// Entries of another version are dropped.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Index {
    version: u32,
    /// The entry that was used last comes last.
    entries: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: Key,
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    vary: Vec<(String, Key)>,
    private: bool,
    freshness: Freshness,
    length: usize,
}

impl ResponseCache {
    /// Restores a cache. Responses that were received longer ago than `keep` seconds are dropped, and
    /// so is what exceeds `max` bytes.
    pub fn restore(max: u64, scope: &[u8], keep: u64, saved: &[u8]) -> Arc<ResponseCache> {
        let cache = ResponseCache::new(max, scope);
        let line = saved.iter().position(|byte| *byte == b'\n').unwrap_or(saved.len());
        let (index, bodies) = saved.split_at(line);
        let mut bodies = bodies.get(1..).unwrap_or_default();
        let index = serde_json::from_slice(index).ok();
        let Some(Index { entries, .. }) = index.filter(|index: &Index| index.version == VERSION)
        else {
            return cache;
        };
        let now = super::now();
        for line in entries.into_iter().take(MAX_ENTRIES) {
            let Some((body, rest)) = bodies.split_at_checked(line.length) else { break };
            bodies = rest;
            let Some((key, entry)) = line.into_entry(body) else { continue };
            let age = now.checked_sub(entry.freshness.received);
            let size = entry.size();
            if age.is_some_and(|age| age < keep) && size <= max && cache.reserve(size) {
                cache.put(key, entry, 0);
            }
        }
        cache
    }

    /// Returns the cache as [`ResponseCache::restore`] reads it, with the responses that were used
    /// last and take at most `max` bytes. `None` if there are none.
    pub fn save(&self, max: u64) -> Option<Vec<u8>> {
        let entries = self.entries();
        let Entries { by_key, .. } = &*entries;
        let mut all: Vec<(&Key, &Entry)> = by_key
            .iter()
            .flat_map(|(key, all)| all.iter().map(move |entry| (key, entry)))
            .collect();
        all.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.used));
        let mut index = Index { version: VERSION, entries: Vec::new() };
        let (mut bodies, mut bytes) = (Vec::new(), EMPTY);
        for (key, entry) in all {
            let line = Line::of(*key, entry);
            let text = serde_json::to_vec(&line).ok()?;
            bytes += (text.len() + 1 + entry.body.len()) as u64;
            if bytes > max {
                break;
            }
            index.entries.push(line);
            bodies.push(&entry.body);
        }
        if bodies.is_empty() {
            return None;
        }
        index.entries.reverse();
        let mut saved = serde_json::to_vec(&index).ok()?;
        saved.push(b'\n');
        bodies.iter().rev().for_each(|body| saved.extend_from_slice(body));
        Some(saved)
    }
}

/// The bytes of an index without entries, and the line break.
const EMPTY: u64 = r#"{"version":1,"entries":[]}"#.len() as u64 + 1;

impl Line {
    fn of(key: Key, entry: &Entry) -> Line {
        let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.as_str().to_owned(), value.as_bytes().to_vec())
        };
        Line {
            key,
            status: entry.status.as_u16(),
            headers: entry.headers.iter().map(field).collect(),
            vary: entry.vary.clone(),
            private: entry.private,
            freshness: entry.freshness.clone(),
            length: entry.body.len(),
        }
    }

    fn into_entry(self, body: &[u8]) -> Option<(Key, Entry)> {
        let fields = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        let entry = Entry {
            status: StatusCode::from_u16(self.status).ok()?,
            headers: headers::map(fields)?,
            body: Bytes::copy_from_slice(body),
            vary: self.vary,
            private: self.private,
            freshness: self.freshness,
            used: 0,
        };
        Some((self.key, entry))
    }
}
