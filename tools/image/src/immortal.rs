//! Pass: makes the objects of the memory image immortal.
//!
//! CPython counts references in the objects themselves, so that a program that only looks at an
//! object writes to it, and its page has to be copied from the image. The counts of immortal
//! objects are left alone (PEP 683). `guest/_skillhost/boot.py` lists the objects that are to live
//! as long as the interpreter does. Here their counts are set.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::memory::Memory;

/// What stands before the list: the same as in `boot.py`.
const MARK: u32 = 0x5EED_0001;
const MARK_LENGTH: u32 = 8;
/// CPython's `Include/refcount.h`, for pointers of 32 bits: `_Py_IMMORTAL_INITIAL_REFCNT`, and from
/// where on a count is one of an immortal object.
const IMMORTAL: u32 = 5 << 28;
const LEAST_IMMORTAL: u32 = 1 << 30;
/// No living object has that many references. Below lie the stack and constants: an object that was
/// freed and is kept for the next of its type has the address of another in place of a count.
const MANY: u32 = 1 << 20;
/// CPython 3.14.0's `Include/opcode_ids.h`: an instruction that counts a reference to what it loads
/// without looking, and the one that does not.
const LOAD_CONST_MORTAL: u8 = 191;
const LOAD_CONST_IMMORTAL: u8 = 190;
/// CPython's image has 125,000 objects.
pub(crate) const LEAST_OBJECTS: usize = 50_000;

/// Sets the counts, and clears the list. Fewer objects than `least` are an error.
pub(crate) fn make_immortal(memory: &mut Memory, least: usize) -> Result<()> {
    let start = find_mark(memory)?;
    let mut list = List { at: start + 4 * MARK_LENGTH };
    let objects = list.read(memory, 2)?;
    let instructions = list.read(memory, 1)?;
    let mut lasting = HashSet::new();
    let mut addresses = Vec::with_capacity(objects.len() / 2);
    for object in objects.as_chunks::<2>().0 {
        let [address, ty] = *object;
        addresses.push(address);
        let references = memory.word(address)?;
        // What is gone since it was listed: its place is free, or holds something else.
        let is_alive = memory.word(address.saturating_add(4))? == ty
            && ((1..MANY).contains(&references) || references >= LEAST_IMMORTAL);
        if is_alive {
            lasting.insert(address);
            if references < LEAST_IMMORTAL {
                memory.set_word(address, IMMORTAL)?;
            }
        }
    }
    if lasting.len() * 100 <= addresses.len() * 99 || addresses.len() < least {
        let (all, lasting) = (addresses.len(), lasting.len());
        return Err(Error::new(format!("of {all} objects only {lasting} are immortal now")));
    }
    addresses.sort_unstable();
    for address in &instructions {
        let owner = addresses.partition_point(|start| start <= address).checked_sub(1);
        if owner.and_then(|owner| addresses.get(owner)).is_none_or(|owner| !lasting.contains(owner))
        {
            // Its code is gone.
            continue;
        }
        match memory.slice(*address, 1)? {
            [instruction] if *instruction == LOAD_CONST_MORTAL => {
                *instruction = LOAD_CONST_IMMORTAL
            }
            _ => return Err(Error::new(format!("no such instruction at {address:#x}"))),
        }
    }
    if instructions.is_empty() {
        return Err(Error::new("no instruction has learnt anything of what it loads"));
    }
    memory.slice(start, (list.at - start) as usize)?.fill(0);
    Ok(())
}

fn find_mark(memory: &Memory) -> Result<u32> {
    let mark: Vec<u8> = (MARK..MARK + MARK_LENGTH).flat_map(u32::to_le_bytes).collect();
    let mut found = (0..).zip(memory.bytes.windows(mark.len())).filter(|(_, bytes)| *bytes == mark);
    match (found.next(), found.next()) {
        (Some((address, _)), None) => Ok(address),
        _ => Err(Error::new("the list of objects is not in the image, or there twice")),
    }
}

/// A place in the list.
struct List {
    at: u32,
}

impl List {
    /// Reads how many items follow, and `each` numbers for every one.
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

    /// A memory with a mortal object, one that is immortal already, code with two instructions, and
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
    fn another_image_is_an_error() {
        assert!(make_immortal(&mut memory(), 4).is_err());
        for (address, value) in [
            // Of another type, freed, no mark, too many, an object and an instruction elsewhere.
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
