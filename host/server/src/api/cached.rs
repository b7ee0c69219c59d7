//! Answers a deterministic run with the result of an earlier one, if the tenants file permits it
//! for the tenant. The run was prepared as any other: its policy was applied, what is required of
//! its skill was verified, and it was approved. It has a record of its own, its own copy of the
//! output, and counts towards the quotas of bytes.
//!
//! Results are found in the store of the tenant, or in its stream of a fleet, and nowhere else:
//! what another tenant has run changes neither an answer nor its time.

use std::io;
use std::sync::Arc;

use serde_json::Value;

use super::executor::{EXITED, FinishedJob, PreparedRun, StoredResult};
use super::fleet::{Fetched, Fleet};
use super::problem::Problem;
use super::state::StreamName;
use super::tenant::Tenant;
use super::types::{FileState, RunSubmission};
use super::uploads::blocking;
use super::{Answered, ApiShared};
use skillhost::invoke::{EarlierRun, ResultRequest};
use skillhost_ledger::receipt::canonical;
use skillhost_ledger::runs::RunStatus;
use skillhost_skill::runtime::{digest, stamp};

/// The most bytes of a result of a fleet, without its output and its files.
pub(super) const RESULT: usize = 64 << 20;

/// The result of an earlier run. Its output is stored as that of the run that it answers.
struct KnownResult {
    run: String,
    result: StoredResult,
}

/// Returns what identifies the result of a run, if it may be answered with an earlier result, and
/// later ones with its own. Waits for the disk.
pub(super) fn key(prepared: &PreparedRun, submission: &RunSubmission) -> Option<String> {
    let PreparedRun { workspace, keys, service, settings, policy, loaded, target, .. } = prepared;
    if !settings.cache_results {
        return None;
    }
    let request = ResultRequest {
        loaded,
        policy,
        target,
        args: &submission.args,
        stdin: submission.stdin.as_ref().map_or(&[][..], |stdin| &stdin.0),
        workspace: workspace.as_ref().map(|folder| folder.path()),
        files: keys.iter().map(|(path, key)| (path.as_str(), key.clone())).collect(),
    };
    let key = service.runner().result_key(&request)?;
    // A result without a receipt cannot answer a run that asks for one.
    Some(digest(format!("{key} receipt: {}", submission.receipt).as_bytes()))
}

impl ApiShared {
    /// Ends a run with a known result. `None` if no usable result is known: the run must then be
    /// executed.
    pub(super) async fn answer_with_known(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        id: &str,
        prepared: &PreparedRun,
        submission: &RunSubmission,
        key: &str,
    ) -> Option<FinishedJob> {
        let known = match &self.options.fleet {
            Some(fleet) => self.known_in(fleet, tenant, id, key).await,
            None => {
                let (tenant, id, key) = (tenant.clone(), id.to_owned(), key.to_owned());
                blocking(move || {
                    known_here(&tenant, &id, &key).map_err(|error| Problem::internal(&error))
                })
                .await
            }
        };
        let KnownResult { run, mut result } = known.unwrap_or_else(|problem| {
            tracing::warn!(
                tenant = tenant.name,
                run = id,
                why = problem.detail,
                "a known result cannot be used"
            );
            None
        })?;
        let exit_code = result.exit_code.filter(|_| result.kind == EXITED)?;
        if let Some(Value::Object(receipt)) = &mut result.receipt {
            receipt.insert("cached".into(), run.clone().into());
        }
        let output = output_of(tenant, id).ok()?;
        let earlier = EarlierRun {
            id: &run,
            exit_code,
            output: output.each_ref().map(|(_, digest)| digest.clone()),
            receipt: result.receipt.as_ref().map(canonical::digest),
        };
        let (target, args) = (&prepared.target, &submission.args);
        let runner = prepared.service.runner();
        if let Err(error) = runner.record_cached(&prepared.loaded, target, args, earlier) {
            // The run fails for the same reason.
            tracing::error!(tenant = tenant.name, run = id, %error, "cannot record an answer");
            return None;
        }
        result.cached = Some(run);
        let status = if exit_code == 0 { RunStatus::Succeeded } else { RunStatus::Failed };
        let bytes = output.iter().map(|(bytes, _)| bytes).sum();
        Some(FinishedJob { status, result, cpu_ms: 0, bytes, key: None })
    }

    /// Finds a result in the fleet. A worker of the tenant has signed it, with its key.
    async fn known_in(
        self: &Arc<Self>,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        id: &str,
        key: &str,
    ) -> Answered<Option<KnownResult>> {
        let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
        let Some((run, end)) = fleet.known_result(&tenant.name, key).await? else {
            return Ok(None);
        };
        let result = self.fetch(fleet, tenant, &end.result).await?;
        let result = result.at(0, RESULT).map_err(|error| internal(&error))?;
        let result: StoredResult =
            serde_json::from_slice(&result).map_err(|error| internal(&error))?;
        for digest in files_of(&result) {
            if !self.fetch_blob(fleet, tenant, digest).await? {
                return Ok(None);
            }
        }
        let mut output = [None, None];
        for (into, content) in output.iter_mut().zip([&end.stdout, &end.stderr]) {
            *into = Some(self.fetch(fleet, tenant, content).await?);
        }
        write_output(tenant, id, output).map_err(|error| internal(&error))?;
        Ok(Some(KnownResult { run, result }))
    }
}

/// Finds a result on this disk. `None`, too, if a part of it has just expired.
fn known_here(tenant: &Tenant, id: &str, key: &str) -> io::Result<Option<KnownResult>> {
    let store = &tenant.state.store;
    let Some((run, result)) = store.known_result(key).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let result: StoredResult = serde_json::from_str(&result)?;
    let digests = files_of(&result);
    store.keep_blobs(id, &digests).map_err(io::Error::other)?;
    if digests.iter().any(|digest| tenant.state.blob(digest).is_err()) {
        return Ok(None);
    }
    let mut output = [None, None];
    for (into, stream) in output.iter_mut().zip(StreamName::ALL) {
        match tenant.state.output(&run, stream) {
            Ok(from) => *into = Some(from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    write_output(tenant, id, output)?;
    Ok(Some(KnownResult { run, result }))
}

/// Returns the digests of the files that a run has written.
fn files_of(result: &StoredResult) -> Vec<&str> {
    let written = result.changes.iter().filter_map(|change| match &change.after {
        Some(FileState::File { digest, .. }) => Some(&**digest),
        _ => None,
    });
    written.collect()
}

/// Makes the streams of a run with what standard output and error are to have.
fn write_output(tenant: &Tenant, id: &str, output: [Option<Fetched>; 2]) -> io::Result<()> {
    for (to, from) in tenant.state.create_output(id).iter().zip(output) {
        let Some(from) = from else { continue };
        let mut at = 0;
        loop {
            let part = from.at(at, 1 << 20)?;
            if part.is_empty() {
                break;
            }
            to.write(&part)?;
            at += part.len() as u64;
        }
    }
    Ok(())
}

/// Returns the size of each stream of a run and, unless it is empty, its digest.
fn output_of(tenant: &Tenant, id: &str) -> io::Result<[(u64, Option<String>); 2]> {
    let one = |stream| -> io::Result<(u64, Option<String>)> {
        let output = tenant.state.output(id, stream)?;
        let bytes = output.size()?;
        let digest = match &output {
            _ if bytes == 0 => None,
            Fetched::Bytes(bytes) => Some(digest(bytes)),
            Fetched::File(file) => Some(format!("sha256:{}", stamp::file_digest(file)?)),
        };
        Ok((bytes, digest))
    };
    Ok([one(StreamName::Stdout)?, one(StreamName::Stderr)?])
}
