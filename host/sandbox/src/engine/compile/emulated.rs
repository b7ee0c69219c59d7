//! Compiles components on an emulated processor, for `cargo xtask determinism --cpu`.
//!
//! Both tests run in qemu, which emulates one process: a program that it starts runs natively. So
//! the first test makes the sandbox start a script that runs the second one, the compiler, in qemu
//! again. The compiler of the host cannot run there: qemu has no system call filters, without which
//! it refuses to compile. All else is as in any run: the host detects what the processor can do,
//! generates code for it, and checks the code when it loads it.
#![expect(clippy::disallowed_methods, reason = "reads the files that the variables name")]

use std::path::PathBuf;
use std::sync::Arc;

use skillhost_skill::runtime::Component;
use skillhost_skill::runtime::built_in::BuiltIns;

use super::*;
use crate::engine::{Allocation, CacheFolder, Loader};

fn variable(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set")))
}

/// Compiles the built-in programs of a folder, and a component.
#[tokio::test]
#[ignore = "needs qemu: cargo xtask determinism --cpu"]
async fn components_compile_on_an_emulated_processor() {
    let cache = variable("EMULATED_CACHE");
    let built_ins = BuiltIns {
        folders: vec![variable("EMULATED_PROGRAMS")],
        custom: Default::default(),
        host_programs: Default::default(),
    };
    let mut components =
        vec![Component::new(std::fs::read(variable("EMULATED_COMPONENT")).unwrap())];
    for built_in in built_ins.list().unwrap() {
        components.push(Arc::new(built_in).component().unwrap());
    }
    let folder = Arc::new(CacheFolder::new(cache));
    let loader = Loader::new(variable("EMULATED_COMPILER"), Allocation::OnDemand, folder);
    // A hundred times what the slowest takes natively.
    let limits = Limits { compile_ms: 3_600_000, ..Limits::default() };
    for component in components {
        let key = loader.key(&component, Mode::Deterministic, &limits);
        if let Err(status) = loader.load(&component, &key, &limits).await {
            panic!("{}: {status:?}", component.digest);
        }
    }
}

/// The compiler, without confinement.
#[test]
#[ignore = "needs qemu: cargo xtask determinism --cpu"]
fn compiler() {
    let args = std::env::var("EMULATED_COMPILER_ARGS").unwrap();
    let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
    let (settings, _) = parse(&args).unwrap();
    // The script makes stdout descriptor 3, because a test prints to stdout.
    let to = File::options().write(true).open("/proc/self/fd/3").unwrap();
    compile_streams(settings, io::stdin().lock(), to).unwrap();
}
