//! Which commits lead to others, and in which order they are told.

use std::collections::{BinaryHeap, HashSet};

use super::arguments::is_under;
use super::asked::Asked;
use super::commit::Commit;
use super::objects::{Id, Kind};
use super::repository::Repository;

/// A commit in the queue: the latest one first, then in the order of coming.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Queued(i64, std::cmp::Reverse<usize>, Id);

impl Repository {
    /// The commits that lead to some and not to others, the latest first.
    pub(super) async fn walk(&mut self, asked: &Asked) -> Result<Vec<Commit>, String> {
        let hidden = self.ancestors(&asked.exclude).await?;
        let (mut queue, mut seen, mut all, mut skipped) =
            (BinaryHeap::new(), HashSet::new(), Vec::new(), 0);
        for id in &asked.include {
            let id = self.peeled(*id, Some(Kind::Commit)).await?;
            if seen.insert(id) {
                queue.push(Queued(
                    self.commit(id).await?.committer.seconds,
                    std::cmp::Reverse(seen.len()),
                    id,
                ));
            }
        }
        while let Some(Queued(_, _, id)) = queue.pop() {
            if hidden.contains(&id) || all.len() >= asked.most {
                continue;
            }
            let commit = self.commit(id).await?;
            let (follow, shown) = self.followed(&commit, asked).await?;
            for parent in follow {
                // A shallow clone ends where a parent is not there.
                if seen.insert(parent)
                    && let Ok(next) = self.commit(parent).await
                {
                    queue.push(Queued(
                        next.committer.seconds,
                        std::cmp::Reverse(seen.len()),
                        parent,
                    ));
                }
            }
            if shown && asked.takes(&commit) {
                skipped += 1;
                if skipped > asked.skip {
                    all.push(commit);
                }
            }
        }
        if asked.reverse {
            all.reverse();
        }
        Ok(all)
    }

    /// Which parents to go on with, and whether the commit changes what was asked for.
    async fn followed(
        &mut self,
        commit: &Commit,
        asked: &Asked,
    ) -> Result<(Vec<Id>, bool), String> {
        let count = if asked.first_parent { 1 } else { usize::MAX };
        let parents: Vec<Id> = commit.parents.iter().copied().take(count).collect();
        if asked.paths.is_empty() {
            return Ok((parents, true));
        }
        for parent in &parents {
            let Ok(before) = self.commit(*parent).await else { continue };
            let changed = self.between(Some(before.tree), Some(commit.tree)).await?;
            if !changed.iter().any(|one| is_under(&one.path, &asked.paths)) {
                return Ok((vec![*parent], false));
            }
        }
        let shown = match parents[..] {
            [] => self
                .between(None, Some(commit.tree))
                .await?
                .iter()
                .any(|one| is_under(&one.path, &asked.paths)),
            _ => true,
        };
        Ok((parents, shown))
    }

    /// Commits and all that lead to them.
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
