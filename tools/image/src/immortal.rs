//! Pass: makes the objects of the memory image immortal.
//!
//! CPython stores reference counts in objects. So even a program that only reads an object writes
//! to it, and the instance must copy its page. The counts of immortal objects do not change (PEP
//! 683). `guest/_skillhost/boot.py` lists the objects that live as long as the interpreter, and
//! this pass sets their counts.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::memory::Memory;

/// The mark before the list, as in `boot.py`.
const MARK: u32 = 0x5EED_0001;
const MARK_LENGTH: u32 = 8;
/// From CPython's `Include/refcount.h`, for 32-bit pointers: `_Py_IMMORTAL_INITIAL_REFCNT`, and the
/// smallest count of an immortal object.
const IMMORTAL: u32 = 5 << 28;
const LEAST_IMMORTAL: u32 = 1 << 30;
/// More references than a live object has, and less than the address of an object: the stack and
/// constants come first. A freed object in the free list of its type has the address of another
/// object in place of its count.
const MANY: u32 = 1 << 20;
/// From CPython 3.14.0's `Include/opcode_ids.h`: the instruction that counts a reference to the
/// constant that it loads, and the one that does not.
const LOAD_CONST_MORTAL: u8 = 191;
const LOAD_CONST_IMMORTAL: u8 = 190;
/// The least number of objects in the list. CPython's image has 125,000.
pub(crate) const LEAST_OBJECTS: usize = 50_000;

/// Sets the counts, and clears the list. Returns an error if the list has fewer than `least`
/// objects.
pub(crate) fn make_immortal(memory: &mut Memory, least: usize) -> Result<()> {
    let start = find_mark(memory)?;
    let mut list = List { at: start + 4 * MARK_LENGTH };
    let objects = list.read(memory, 2)?;
    let instructions = list.read(memory, 1)?;
    let mut immortal = HashSet::new();
    let mut addresses = Vec::with_capacity(objects.len() / 2);
    for object in objects.as_chunks::<2>().0 {
        let [address, ty] = *object;
        addresses.push(address);
        let references = memory.word(address)?;
        // An object may have been freed since it was listed, and its memory reused.
        let is_alive = memory.word(address.saturating_add(4))? == ty
            && ((1..MANY).contains(&references) || references >= LEAST_IMMORTAL);
        if is_alive {
            immortal.insert(address);
            if references < LEAST_IMMORTAL {
                memory.set_word(address, IMMORTAL)?;
            }
        }
    }
    if immortal.len() * 100 <= addresses.len() * 99 || addresses.len() < least {
        let (all, immortal) = (addresses.len(), immortal.len());
        return Err(Error::new(format!("only {immortal} of {all} objects became immortal")));
    }
    addresses.sort_unstable();
    for address in &instructions {
        let owner = addresses.partition_point(|start| start <= address).checked_sub(1);
        if owner
            .and_then(|owner| addresses.get(owner))
            .is_none_or(|owner| !immortal.contains(owner))
        {
            // The code that has the instruction was freed.
            continue;
        }
        match memory.slice(*address, 1)? {
            [instruction] if *instruction == LOAD_CONST_MORTAL => {
                *instruction = LOAD_CONST_IMMORTAL
            }
            _ => return Err(Error::new(format!("no LOAD_CONST_MORTAL at {address:#x}"))),
        }
    }
    if instructions.is_empty() {
        return Err(Error::new("the list has no instructions"));
    }
    memory.slice(start, (list.at - start) as usize)?.fill(0);
    Ok(())
}

fn find_mark(memory: &Memory) -> Result<u32> {
    let mark: Vec<u8> = (MARK..MARK + MARK_LENGTH).flat_map(u32::to_le_bytes).collect();
    let mut found = (0..).zip(memory.bytes.windows(mark.len())).filter(|(_, bytes)| *bytes == mark);
    match (found.next(), found.next()) {
        (Some((address, _)), None) => Ok(address),
        _ => Err(Error::new("the image must have one list of objects")),
    }
}

/// A position in the list.
struct List {
    at: u32,
}

impl List {
    /// Reads the number of the items that follow, and `each` numbers per item.
    fn read(&mut self, memory: &mut Memory, each: u32) -> Result<Vec<u32>> {
        let size = memory.word(self.at)?.checked_mul(4 * each);
        let size = size.ok_or_else(|| Error::new("the list of objects is too long"))?;
        let (numbers, _) = memory.slice(self.at + 4, size as usize)?.as_chunks();
        let numbers = numbers.iter().map(|number| u32::from_le_bytes(*number)).collect();
        self.at += 4 + size;
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: u32 = 0x100;
    const TYPE: u32 = 0x40;

    /// Returns a memory with a mortal object, an immortal one, code with two instructions, and
    /// their list.
    fn memory() -> Memory {
        let module = wat::parse_str(format!(
            "(module (memory 1) (data (i32.const 0) \"{}\"))",
            "\\00".repeat(0x180)
        ))
        .unwrap();
        let mut memory = Memory::read(&module).unwrap();
        let code = u32::from_le_bytes([0, 0, LOAD_CONST_MORTAL, 7]);
        for (address, value) in [(0x10, 3), (0x14, TYPE), (0x20, LEAST_IMMORTAL), (0x24, TYPE)]
            .into_iter()
            .chain([(0x30, 1), (0x34, TYPE), (0x38, code)])
            .chain((0..MARK_LENGTH).map(|number| (LIST + 4 * number, MARK + number)))
            .chain(
                (0..)
                    .map(|number| LIST + 4 * (MARK_LENGTH + number))
                    .zip([3, 0x10, TYPE, 0x20, TYPE, 0x30, TYPE, 1, 0x3a]),
            )
        {
            memory.set_word(address, value).unwrap();
        }
        memory
    }

    #[test]
    fn listed_objects_become_immortal() {
        let mut memory = memory();
        make_immortal(&mut memory, 3).unwrap();
        assert_eq!(memory.word(0x10).unwrap(), IMMORTAL);
        assert_eq!(memory.word(0x20).unwrap(), LEAST_IMMORTAL);
        assert_eq!(memory.slice(0x3a, 2).unwrap(), [LOAD_CONST_IMMORTAL, 7]);
        assert!(memory.bytes[LIST as usize..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn unexpected_images_are_errors() {
        assert!(make_immortal(&mut memory(), 4).is_err());
        for (address, value) in [
            // Another type, a freed object, no mark, too many objects, an object outside the image,
            // a wrong and a missing instruction.
            (0x14, TYPE + 4),
            (0x10, 0),
            (LIST, 0),
            (LIST + 32, u32::MAX),
            (LIST + 36, 0xffff_fff0),
            (LIST + 64, 0x39),
            (LIST + 60, 0),
        ] {
            let mut memory = memory();
            memory.set_word(address, value).unwrap();
            assert!(make_immortal(&mut memory, 3).is_err(), "{address:#x}");
        }
    }
}
