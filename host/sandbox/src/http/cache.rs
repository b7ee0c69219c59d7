//! A private HTTP cache (RFC 9111) of one skill in one workspace.
//!
//! It is asked after a request was checked like any other, and it holds nothing that was asked for
//! with credentials or that sets a cookie. No heuristics: a response is reused only while its server
//! said so, or after the server confirmed it. The rules are our own code because what a server sends
//! must neither panic nor cost time here; the available crate adds durations without bounds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{
    AGE, AUTHORIZATION, CACHE_CONTROL, COOKIE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, PRAGMA, RANGE, SET_COOKIE, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, request};
use sha2::{Digest as _, Sha256};

use self::rules::{Directives, Freshness};

pub(super) mod collect;
mod rules;
mod stored;

/// The most responses that a cache holds.
const MAX_ENTRIES: usize = 1_024;

/// The most responses to one URL that differ by `Vary`.
const MAX_VARIANTS: usize = 16;

/// The most fields that `Vary` may name.
const MAX_VARY: usize = 16;

/// What an entry takes besides its body and its fields.
const OVERHEAD: u64 = 512;

/// The responses that a run may reuse.
#[derive(Debug)]
pub struct ResponseCache {
    /// Bytes of all entries.
    max: u64,
    /// Whose responses these are: part of every key.
    scope: Vec<u8>,
    entries: Mutex<Entries>,
}

/// The digest of scope and URL.
type Key = [u8; 32];

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<Key, Vec<Entry>>,
    /// Bytes of the entries, and of the responses that are being collected.
    bytes: u64,
    count: usize,
    /// Counts uses, so that the entry that was unused for the longest time is known.
    uses: u64,
    /// Counts requests that may have changed something: what was asked for before one is not stored
    /// after it.
    changes: u64,
}

/// A complete response.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The fields that `Vary` names, with a digest of what the request had. Requests' fields may be
    /// secret, so they are not stored.
    vary: Vec<(String, Key)>,
    /// Whether it came from a private address: then only a run that may reach one gets it.
    private: bool,
    freshness: Freshness,
    used: u64,
}

/// A request that the cache may answer.
#[derive(Debug)]
pub(super) struct Question {
    key: Key,
    headers: HeaderMap,
    directives: Directives,
    /// [`Entries::changes`] when it was asked.
    changes: u64,
}

/// What the cache has for a request.
#[derive(Debug)]
pub(super) enum Found {
    /// A response to use as it is.
    Fresh(Entry),
    /// A response that its server must confirm.
    Stale(Entry),
    /// Nothing.
    Nothing,
}

impl ResponseCache {
    /// Creates an empty cache of at most `max` bytes. `scope` says whose responses these are: nothing
    /// that was stored under one is found under another.
    pub fn new(max: u64, scope: &[u8]) -> Arc<ResponseCache> {
        Arc::new(ResponseCache::with_entries(max, scope, Entries::default()))
    }

    fn with_entries(max: u64, scope: &[u8], entries: Entries) -> ResponseCache {
        ResponseCache { max, scope: scope.to_owned(), entries: Mutex::new(entries) }
    }

    /// Returns the question that a request asks the cache, or `None` if the request is sent without
    /// asking: it changes something, has a body or credentials, wants a part or a condition of its
    /// own, or must not be stored.
    pub(super) fn question(&self, parts: &request::Parts, is_empty: bool) -> Option<Question> {
        const ALONE: [http::HeaderName; 8] = [
            AUTHORIZATION,
            COOKIE,
            RANGE,
            IF_RANGE,
            IF_MATCH,
            IF_NONE_MATCH,
            IF_MODIFIED_SINCE,
            IF_UNMODIFIED_SINCE,
        ];
        let headers = &parts.headers;
        if parts.method != Method::GET
            || !is_empty
            || ALONE.iter().any(|name| headers.contains_key(name))
        {
            return None;
        }
        let mut directives = Directives::of(headers.get_all(CACHE_CONTROL));
        let asks_anew = headers.get_all(PRAGMA).iter().any(|value| value.as_bytes() == b"no-cache");
        directives.no_cache |= asks_anew && !headers.contains_key(CACHE_CONTROL);
        (!directives.no_store).then(|| Question {
            key: self.key(&parts.uri),
            headers: headers.clone(),
            directives,
            changes: self.entries().changes,
        })
    }

    /// Looks for a response. `private`: whether the run may reach private addresses of this host.
    pub(super) fn find(&self, question: &Question, private: bool, now: u64) -> Found {
        let mut entries = self.entries();
        entries.uses += 1;
        let uses = entries.uses;
        let variants = entries.by_key.get_mut(&question.key);
        let fits = |entry: &&mut Entry| (private || !entry.private) && question.selects(entry);
        let Some(entry) = variants.and_then(|all| all.iter_mut().rev().find(fits)) else {
            return Found::Nothing;
        };
        entry.used = uses;
        if entry.freshness.satisfies(&question.directives, now) {
            let mut entry = entry.clone();
            entry.headers.insert(AGE, HeaderValue::from(entry.freshness.age(now)));
            Found::Fresh(entry)
        } else if entry.has_validator() {
            Found::Stale(entry.clone())
        } else {
            Found::Nothing
        }
    }

    /// Forgets what is stored for a URL: something at this URL may have changed.
    pub(super) fn forget(&self, uri: &Uri) {
        let key = self.key(uri);
        let mut entries = self.entries();
        entries.changes += 1;
        for entry in entries.by_key.remove(&key).unwrap_or_default() {
            entries.discount(entry.size());
        }
    }

    /// Forgets one response.
    pub(super) fn forget_variant(&self, question: &Question) {
        self.entries().remove(&question.key, |entry| question.selects(entry));
    }

    /// Stores a response whose bytes are counted already, unless something may have changed since it
    /// was asked for: see [`Entries::changes`].
    fn put(&self, key: Key, entry: Entry, changes: u64) {
        let mut entries = self.entries();
        if entries.changes != changes {
            entries.bytes = entries.bytes.saturating_sub(entry.size());
            return;
        }
        entries.remove(&key, |old| old.vary == entry.vary);
        while entries.by_key.get(&key).is_some_and(|all| all.len() >= MAX_VARIANTS) {
            let first = entries.by_key[&key][0].vary.clone();
            entries.remove(&key, |old| old.vary == first);
        }
        while entries.count >= MAX_ENTRIES && entries.drop_oldest() {}
        entries.uses += 1;
        let used = entries.uses;
        entries.count += 1;
        entries.by_key.entry(key).or_default().push(Entry { used, ..entry });
    }

    /// Makes room for bytes of a response; `false` if other responses that are being collected leave
    /// none.
    fn reserve(&self, bytes: u64) -> bool {
        let mut entries = self.entries();
        while entries.bytes.saturating_add(bytes) > self.max {
            if !entries.drop_oldest() {
                return false;
            }
        }
        entries.bytes += bytes;
        true
    }

    fn release(&self, bytes: u64) {
        let mut entries = self.entries();
        entries.bytes = entries.bytes.saturating_sub(bytes);
    }

    fn key(&self, uri: &Uri) -> Key {
        let mut hash = Sha256::new();
        // The scope's length keeps it apart from the URL.
        hash.update((self.scope.len() as u64).to_le_bytes());
        hash.update(&self.scope);
        hash.update(uri.to_string().as_bytes());
        hash.finalize().into()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    /// Whether the guest wants nothing from the network.
    pub(super) fn is_only_cached(&self) -> bool {
        self.directives.only_if_cached
    }

    /// Adds the conditions under which a server confirms an entry.
    pub(super) fn validate(&self, entry: &Entry, headers: &mut HeaderMap) {
        for (field, condition) in [(ETAG, IF_NONE_MATCH), (LAST_MODIFIED, IF_MODIFIED_SINCE)] {
            if let Some(value) = entry.headers.get(field) {
                headers.insert(condition, value.clone());
            }
        }
    }

    /// Checks whether a request's fields are those that the entry was asked for with.
    fn selects(&self, entry: &Entry) -> bool {
        entry.vary.iter().all(|(name, digest)| digest_of(&self.headers, name) == *digest)
    }
}

impl Entry {
    /// Creates the entry of a response without its body, or `None` if it must not be stored.
    fn new(
        question: &Question,
        status: StatusCode,
        headers: &HeaderMap,
        private: bool,
        (asked, now): (u64, u64),
    ) -> Option<Entry> {
        const UNDERSTOOD: [u16; 13] =
            [200, 203, 204, 300, 301, 302, 307, 308, 404, 405, 410, 414, 501];
        let directives = Directives::of(headers.get_all(CACHE_CONTROL));
        if !UNDERSTOOD.contains(&status.as_u16())
            || directives.no_store
            || headers.contains_key(SET_COOKIE)
        {
            return None;
        }
        let entry = Entry {
            status,
            headers: headers.clone(),
            body: Bytes::new(),
            vary: vary(headers, &question.headers)?,
            private,
            freshness: Freshness::of(&directives, headers, asked, now),
            used: 0,
        };
        // Without a lifetime or a validator it would never be used.
        (entry.freshness.lifetime() > 0 || entry.has_validator()).then_some(entry)
    }

    /// Updates the entry by the server's confirmation (RFC 9111, section 3.2); `None` if it confirms
    /// another response.
    pub(super) fn confirmed(
        mut self,
        question: &Question,
        headers: &HeaderMap,
        (asked, now): (u64, u64),
    ) -> Option<Entry> {
        let opaque = |map: &HeaderMap| {
            map.get(ETAG)
                .map(|tag| tag.as_bytes().strip_prefix(b"W/").unwrap_or(tag.as_bytes()).to_vec())
        };
        if headers.contains_key(ETAG) && opaque(headers) != opaque(&self.headers) {
            return None;
        }
        const OF_BODY: [&str; 4] =
            ["content-length", "content-encoding", "content-type", "content-range"];
        // It replaces what it names; an `Age` of the old response is no longer true.
        self.headers.remove(AGE);
        for name in headers.keys().filter(|name| !OF_BODY.contains(&name.as_str())) {
            self.headers.remove(name);
            for value in headers.get_all(name) {
                self.headers.append(name.clone(), value.clone());
            }
        }
        let directives = Directives::of(self.headers.get_all(CACHE_CONTROL));
        self.freshness = Freshness::of(&directives, &self.headers, asked, now);
        // What no field can select is not stored again: see `is_storable`.
        self.vary = vary(&self.headers, &question.headers).unwrap_or_default();
        Some(self)
    }

    /// Checks whether the entry may stay stored after a confirmation.
    fn is_storable(&self) -> bool {
        !Directives::of(self.headers.get_all(CACHE_CONTROL)).no_store
            && !self.headers.contains_key(SET_COOKIE)
            && vary(&self.headers, &HeaderMap::new()).is_some()
    }

    fn has_validator(&self) -> bool {
        self.headers.contains_key(ETAG) || self.headers.contains_key(LAST_MODIFIED)
    }

    fn size(&self) -> u64 {
        let fields =
            self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 64);
        let vary = self.vary.iter().map(|(name, _)| name.len() + 64);
        (fields.sum::<usize>() + vary.sum::<usize>() + self.body.len()) as u64 + OVERHEAD
    }
}

impl ResponseCache {
    /// Stores what a server confirmed, or forgets it if the confirmation says so.
    pub(super) fn update(&self, question: &Question, entry: &Entry) {
        self.forget_variant(question);
        let size = entry.size();
        if entry.is_storable() && size <= self.max / 2 && self.reserve(size) {
            self.put(question.key, entry.clone(), question.changes);
        }
    }
}

impl Entries {
    fn remove(&mut self, key: &Key, is_it: impl Fn(&Entry) -> bool) {
        let Some(variants) = self.by_key.get_mut(key) else { return };
        let (gone, rest): (Vec<_>, Vec<_>) =
            std::mem::take(variants).into_iter().partition(|entry| is_it(entry));
        if rest.is_empty() {
            self.by_key.remove(key);
        } else {
            *variants = rest;
        }
        for entry in gone {
            self.discount(entry.size());
        }
    }

    fn discount(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.count -= 1;
    }

    /// Removes the entry that was unused for the longest time; `false` if there is none.
    fn drop_oldest(&mut self) -> bool {
        let all = self.by_key.iter().flat_map(|(key, all)| all.iter().map(move |e| (e.used, *key)));
        let Some((used, key)) = all.min() else { return false };
        self.remove(&key, |entry| entry.used == used);
        true
    }
}

/// Returns the fields that select a response, or `None` if none can: `Vary: *`.
fn vary(response: &HeaderMap, request: &HeaderMap) -> Option<Vec<(String, Key)>> {
    let mut names = Vec::new();
    for value in response.get_all(VARY) {
        names.extend(value.to_str().ok()?.split(',').map(|name| name.trim().to_ascii_lowercase()));
    }
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    let selects = |name: &String| name != "*" && name.parse::<http::HeaderName>().is_ok();
    (names.len() <= MAX_VARY && names.iter().all(selects)).then(|| {
        let digested = |name: String| (name.clone(), digest_of(request, &name));
        names.into_iter().map(digested).collect()
    })
}

/// Returns a digest of a field's values, different from that of no field.
fn digest_of(headers: &HeaderMap, name: &str) -> Key {
    let mut hash = Sha256::new();
    for value in headers.get_all(name) {
        hash.update((value.len() as u64).to_le_bytes());
        hash.update(value.as_bytes());
    }
    hash.finalize().into()
}

/// Returns the seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
