//! The lines to delete and to insert: Myers' shortest edit script, searched from both ends, with
//! changes placed as GNU diff and git place them.
//!
//! Not with imara-diff: for 600 random pairs of files, its result differs from that of GNU diff in
//! 53 and from that of git in 16. The result of this code differs in 0 and 9, the latter because it
//! lacks git's indent heuristic.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// Lines of the old file and the lines of the new file that replace them. One of the ranges may be
/// empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) old: Range<usize>,
    pub(crate) new: Range<usize>,
}

/// Returns the changes from `old` to `new`, in order. Of the lines common to both beginnings or
/// both ends, only the nearest `horizon` are considered, so changes are not moved further.
pub(crate) fn changes<K: Eq + Hash>(old: &[K], new: &[K], horizon: usize) -> Vec<Change> {
    let first = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let last = old[first..]
        .iter()
        .rev()
        .zip(new[first..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (first, last) = (first.saturating_sub(horizon), last.saturating_sub(horizon));
    let mut changes = between(&old[first..old.len() - last], &new[first..new.len() - last]);
    for Change { old, new } in &mut changes {
        (*old, *new) = (old.start + first..old.end + first, new.start + first..new.end + first);
    }
    changes
}

fn between<K: Eq + Hash>(old: &[K], new: &[K]) -> Vec<Change> {
    let mut classes = HashMap::new();
    let mut class = |line| {
        let next = classes.len();
        *classes.entry(line).or_insert(next)
    };
    let old: Vec<usize> = old.iter().map(&mut class).collect();
    let new: Vec<usize> = new.iter().map(&mut class).collect();
    let (mut deleted, mut inserted) = (Flags::new(old.len()), Flags::new(new.len()));
    // Lines that the other file does not contain are left out of the search.
    let old_left = keep_common(&old, &new, &mut deleted);
    let new_left = keep_common(&new, &old, &mut inserted);
    let pick =
        |lines: &[usize], left: &[usize]| left.iter().map(|at| lines[*at]).collect::<Vec<_>>();
    let mut search = Search::new(pick(&old, &old_left), pick(&new, &new_left));
    search.compare(0..old_left.len(), 0..new_left.len());
    for at in search.deleted {
        deleted.set(old_left[at], true);
    }
    for at in search.inserted {
        inserted.set(new_left[at], true);
    }
    place(&old, &mut deleted, &inserted);
    place(&new, &mut inserted, &deleted);
    gather(&deleted, old.len(), &inserted, new.len())
}

/// A flag for each line, between two flags that are never set.
struct Flags(Vec<bool>);

impl Flags {
    fn new(count: usize) -> Flags {
        Flags(vec![false; count + 2])
    }

    fn get(&self, at: usize) -> bool {
        self.0[at + 1]
    }

    fn before(&self, at: usize) -> bool {
        self.0[at]
    }

    fn set(&mut self, at: usize, to: bool) {
        self.0[at + 1] = to;
    }
}

/// Returns the positions of lines that `other` contains too, and flags the others.
fn keep_common(lines: &[usize], other: &[usize], flags: &mut Flags) -> Vec<usize> {
    let there: std::collections::HashSet<_> = other.iter().collect();
    let (kept, gone): (Vec<_>, Vec<_>) =
        (0..lines.len()).partition(|at| there.contains(&lines[*at]));
    for at in gone {
        flags.set(at, true);
    }
    kept
}

struct Search {
    old: Vec<usize>,
    new: Vec<usize>,
    /// The furthest line of the old file on each diagonal, from the front and from the back.
    front: Vec<isize>,
    back: Vec<isize>,
    deleted: Vec<usize>,
    inserted: Vec<usize>,
}

impl Search {
    fn new(old: Vec<usize>, new: Vec<usize>) -> Search {
        let diagonals = old.len() + new.len() + 3;
        Search {
            old,
            new,
            front: vec![0; diagonals],
            back: vec![0; diagonals],
            deleted: Vec::new(),
            inserted: Vec::new(),
        }
    }

    fn compare(&mut self, mut old: Range<usize>, mut new: Range<usize>) {
        while !old.is_empty() && !new.is_empty() && self.old[old.start] == self.new[new.start] {
            (old.start, new.start) = (old.start + 1, new.start + 1);
        }
        while !old.is_empty() && !new.is_empty() && self.old[old.end - 1] == self.new[new.end - 1] {
            (old.end, new.end) = (old.end - 1, new.end - 1);
        }
        if old.is_empty() {
            self.inserted.extend(new);
        } else if new.is_empty() {
            self.deleted.extend(old);
        } else {
            let (x, y) = self.middle(&old, &new);
            self.compare(old.start..x, new.start..y);
            self.compare(x..old.end, y..new.end);
        }
    }

    /// Returns a point on a shortest edit script.
    fn middle(&mut self, old: &Range<usize>, new: &Range<usize>) -> (usize, usize) {
        let line = |at: usize| isize::try_from(at).unwrap_or(isize::MAX);
        let at = |number: isize| usize::try_from(number).unwrap_or(0);
        let (x_first, x_end, y_first, y_end) =
            (line(old.start), line(old.end), line(new.start), line(new.end));
        let slot = {
            let shift = line(self.new.len()) + 1;
            move |diagonal: isize| at(diagonal + shift)
        };
        let (least, most) = (x_first - y_end, x_end - y_first);
        let (from, to) = (x_first - y_first, x_end - y_end);
        let (mut front_min, mut front_max, mut back_min, mut back_max) = (from, from, to, to);
        let odd = (from - to) % 2 != 0;
        self.front[slot(from)] = x_first;
        self.back[slot(to)] = x_end;
        loop {
            widen(&mut self.front, &mut front_min, &mut front_max, least..=most, -1, slot);
            let mut d = front_max;
            while d >= front_min {
                let (low, high) = (self.front[slot(d - 1)], self.front[slot(d + 1)]);
                let mut x = if low < high { high } else { low + 1 };
                while x < x_end && x - d < y_end && self.old[at(x)] == self.new[at(x - d)] {
                    x += 1;
                }
                self.front[slot(d)] = x;
                if odd && (back_min..=back_max).contains(&d) && self.back[slot(d)] <= x {
                    return (at(x), at(x - d));
                }
                d -= 2;
            }
            widen(&mut self.back, &mut back_min, &mut back_max, least..=most, isize::MAX, slot);
            let mut d = back_max;
            while d >= back_min {
                let (low, high) = (self.back[slot(d - 1)], self.back[slot(d + 1)]);
                let mut x = if low < high { low } else { high - 1 };
                while x > x_first
                    && x - d > y_first
                    && self.old[at(x - 1)] == self.new[at(x - d - 1)]
                {
                    x -= 1;
                }
                self.back[slot(d)] = x;
                if !odd && (front_min..=front_max).contains(&d) && x <= self.front[slot(d)] {
                    return (at(x), at(x - d));
                }
                d -= 2;
            }
        }
    }
}

/// Adds one more diagonal on either side, if there is one.
fn widen(
    reached: &mut [isize],
    min: &mut isize,
    max: &mut isize,
    all: std::ops::RangeInclusive<isize>,
    nowhere: isize,
    slot: impl Fn(isize) -> usize,
) {
    if *min > *all.start() {
        *min -= 1;
        reached[slot(*min - 1)] = nowhere;
    } else {
        *min += 1;
    }
    if *max < *all.end() {
        *max += 1;
        reached[slot(*max + 1)] = nowhere;
    } else {
        *max -= 1;
    }
}

/// Slides groups of flagged lines over equal lines: joins them with the next group, otherwise
/// aligns them with a group of the other file, otherwise moves them to the end.
fn place(lines: &[usize], flags: &mut Flags, other: &Flags) {
    let (mut at, mut beside, end) = (0, 0, lines.len());
    loop {
        while at < end && !flags.get(at) {
            while other.get(beside) {
                beside += 1;
            }
            (at, beside) = (at + 1, beside + 1);
        }
        if at == end {
            return;
        }
        let mut start = at;
        while flags.get(at) {
            at += 1;
        }
        while other.get(beside) {
            beside += 1;
        }
        let mut aligned;
        loop {
            let length = at - start;
            while start > 0 && lines[start - 1] == lines[at - 1] {
                (start, at, beside) = back(flags, start, at, other, beside);
                while flags.before(start) {
                    start -= 1;
                }
            }
            aligned = if other.before(beside) { at } else { end };
            while at != end && lines[start] == lines[at] {
                flags.set(start, false);
                flags.set(at, true);
                (start, at) = (start + 1, at + 1);
                while flags.get(at) {
                    at += 1;
                }
                beside += 1;
                while other.get(beside) {
                    aligned = at;
                    beside += 1;
                }
            }
            if length == at - start {
                break;
            }
        }
        while aligned < at {
            (start, at, beside) = back(flags, start, at, other, beside);
        }
    }
}

/// Moves a group one line towards the front.
fn back(
    flags: &mut Flags,
    start: usize,
    at: usize,
    other: &Flags,
    mut beside: usize,
) -> (usize, usize, usize) {
    flags.set(start - 1, true);
    flags.set(at - 1, false);
    beside -= 1;
    while other.get(beside) {
        beside -= 1;
    }
    (start - 1, at - 1, beside)
}

fn gather(deleted: &Flags, old: usize, inserted: &Flags, new: usize) -> Vec<Change> {
    let (mut x, mut y, mut changes) = (0, 0, Vec::new());
    while x < old || y < new {
        let (from_x, from_y) = (x, y);
        while deleted.get(x) {
            x += 1;
        }
        while inserted.get(y) {
            y += 1;
        }
        if (x, y) == (from_x, from_y) {
            (x, y) = (x + 1, y + 1);
        } else {
            changes.push(Change { old: from_x..x, new: from_y..y });
        }
    }
    changes
}
