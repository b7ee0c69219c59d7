//! Ancestry: which commits are reachable from others, and the order in which they are printed.

use std::collections::{BinaryHeap, HashSet};

use super::arguments::is_under;
use super::commit::Commit;
use super::log_options::LogOptions;
use super::objects::{Id, Kind};
use super::repository::Repository;

/// A commit in the queue. The latest one comes first, then insertion order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct QueueEntry(i64, std::cmp::Reverse<usize>, Id);

impl Repository {
    /// Returns the commits reachable from `include` and not from `exclude`, the latest first.
    pub(super) async fn walk(&mut self, options: &LogOptions) -> Result<Vec<Commit>, String> {
        let hidden = self.ancestors(&options.exclude).await?;
        let (mut queue, mut seen, mut all, mut skipped) =
            (BinaryHeap::new(), HashSet::new(), Vec::new(), 0);
        for id in &options.include {
            let id = self.peeled(*id, Some(Kind::Commit)).await?;
            if seen.insert(id) {
                queue.push(QueueEntry(
                    self.commit(id).await?.committer.seconds,
                    std::cmp::Reverse(seen.len()),
                    id,
                ));
            }
        }
        while let Some(QueueEntry(_, _, id)) = queue.pop() {
            if hidden.contains(&id) || all.len() >= options.most {
                continue;
            }
            let commit = self.commit(id).await?;
            let (follow, shown) = self.followed(&commit, options).await?;
            for parent in follow {
                // A shallow clone ends at missing parents.
                if seen.insert(parent)
                    && let Ok(next) = self.commit(parent).await
                {
                    queue.push(QueueEntry(
                        next.committer.seconds,
                        std::cmp::Reverse(seen.len()),
                        parent,
                    ));
                }
            }
            if shown && options.takes(&commit) {
                skipped += 1;
                if skipped > options.skip {
                    all.push(commit);
                }
            }
        }
        if options.reverse {
            all.reverse();
        }
        Ok(all)
    }

    /// Returns the parents to follow, and whether the commit changes one of the selected paths.
    async fn followed(
        &mut self,
        commit: &Commit,
        options: &LogOptions,
    ) -> Result<(Vec<Id>, bool), String> {
        let count = if options.first_parent { 1 } else { usize::MAX };
        let parents: Vec<Id> = commit.parents.iter().copied().take(count).collect();
        if options.paths.is_empty() {
            return Ok((parents, true));
        }
        for parent in &parents {
            let Ok(before) = self.commit(*parent).await else { continue };
            let changed = self.between(Some(before.tree), Some(commit.tree)).await?;
            if !changed.iter().any(|one| is_under(&one.path, &options.paths)) {
                return Ok((vec![*parent], false));
            }
        }
        let shown = match parents[..] {
            [] => self
                .between(None, Some(commit.tree))
                .await?
                .iter()
                .any(|one| is_under(&one.path, &options.paths)),
            _ => true,
        };
        Ok((parents, shown))
    }

    /// Returns commits and all their ancestors.
    pub(super) async fn ancestors(&mut self, of: &[Id]) -> Result<HashSet<Id>, String> {
        let (mut found, mut next) = (HashSet::new(), Vec::new());
        for id in of {
            next.push(self.peeled(*id, Some(Kind::Commit)).await?);
        }
        while let Some(id) = next.pop() {
            if found.insert(id)
                && let Ok(commit) = self.commit(id).await
            {
                next.extend(commit.parents);
            }
        }
        Ok(found)
    }
}
