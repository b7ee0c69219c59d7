//! A small seccomp filter, in the kernel's format. It refuses system calls that scripts do not need
//! and that sandbox escapes have used.

/// The refused system calls, for x86-64 (asm/unistd_64.h): ptrace, mount, umount2, pivot_root,
/// reboot, init_module, kexec_load, add_key, keyctl, unshare, perf_event_open, setns, finit_module,
/// bpf, userfaultfd.
const REFUSED: [u32; 15] =
    [101, 165, 166, 155, 169, 175, 246, 248, 250, 272, 298, 308, 313, 321, 323];

/// AUDIT_ARCH_X86_64 of linux/audit.h.
const X86_64: u32 = 0xc000_003e;

/// Returns a classic BPF program (linux/filter.h): each instruction is `code, jt, jf, k`, 8 bytes.
pub(crate) fn filter() -> Vec<u8> {
    // The loads, jumps and returns are those of linux/bpf_common.h. seccomp_data has the number of
    // the system call at 0 and the architecture at 4.
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const KILL: u32 = 0x8000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    // SECCOMP_RET_ERRNO with EPERM.
    const REFUSE: u32 = 0x0005_0001;
    let mut program =
        vec![(LOAD, 0, 0, 4), (EQUAL, 1, 0, X86_64), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)];
    for (left, call) in (0..REFUSED.len()).rev().zip(REFUSED) {
        let to_refuse = u8::try_from(left + 1).unwrap_or(u8::MAX);
        program.push((EQUAL, to_refuse, 0, call));
    }
    program.extend([(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]);
    let bytes = |(code, jt, jf, k): (u16, u8, u8, u32)| {
        [&code.to_le_bytes()[..], &[jt, jf], &k.to_le_bytes()].concat()
    };
    program.into_iter().flat_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets the filter, as the kernel would.
    fn verdict(call: u32, arch: u32) -> u32 {
        let program = filter();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let i = &program[at * 8..at * 8 + 8];
            let k = u32::from_le_bytes([i[4], i[5], i[6], i[7]]);
            at += 1;
            match u16::from_le_bytes([i[0], i[1]]) {
                0x20 => loaded = if k == 0 { call } else { arch },
                0x15 => at += usize::from(if loaded == k { i[2] } else { i[3] }),
                _ => return k,
            }
        }
    }

    #[test]
    fn only_the_listed_calls_are_refused() {
        assert!(REFUSED.iter().all(|call| verdict(*call, X86_64) == 0x0005_0001));
        assert!(
            (0..400)
                .filter(|call| !REFUSED.contains(call))
                .all(|call| verdict(call, X86_64) == 0x7fff_0000)
        );
        assert_eq!(verdict(0, 1), 0x8000_0000);
    }
}
