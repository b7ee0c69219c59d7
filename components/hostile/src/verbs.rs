//! All verbs by name.

use skillhost_guest::println;
use skillhost_guest::process::ExitCode;

use crate::report::Report;
use crate::{ambient, bombs, endings, family, links, loads, network, paths, sources, web};

macro_rules! verbs {
    ($kind:ident, $call:ident: $($name:literal => $function:path,)+) => {
        const $kind: &[&str] = &[$($name),+];

        async fn $call(verb: &str, args: &[String]) -> Option<Report> {
            match verb {
                $($name => Some($function(args).await),)+
                _ => None,
            }
        }
    };
}

verbs! { ATTACKS, attack:
    "traversal" => paths::traversal,
    "absolute" => paths::absolute,
    "proc" => paths::proc,
    "glob" => paths::glob,
    "read-only" => paths::read_only,
    "state" => paths::state,
    "symlink" => links::symlink,
    "hardlink" => links::hardlink,
    "race" => links::race,
    "environment" => ambient::environment,
    "programs" => ambient::programs,
    "sockets" => network::sockets,
    "dns" => network::dns,
    "http-private" => web::private,
    "http-spellings" => web::spellings,
    "http-redirect" => web::redirect,
    "http-rebinding" => web::rebinding,
    "http-smuggling" => web::smuggling,
    "memory" => bombs::memory,
    "memory-at-once" => bombs::memory_at_once,
    "memory-in-pieces" => bombs::memory_in_pieces,
    "spin" => bombs::spin,
    "sleep" => bombs::sleep,
    "stdin" => bombs::stdin,
    "flood" => bombs::flood,
    "disk" => bombs::disk,
    "files" => bombs::files,
    "handles" => bombs::handles,
    "host-calls" => bombs::host_calls,
    "random" => bombs::random,
    "random-at-once" => bombs::random_at_once,
    "recursion" => bombs::recursion,
    "recursion-in-memory" => bombs::recursion_in_memory,
    "huge" => bombs::huge,
    "spawn" => bombs::spawn,
    "spawn-again" => bombs::spawn_again,
    "fork" => bombs::fork,
    "hoard" => bombs::hoard,
    "pipes" => family::pipes,
    "poll-bomb" => family::poll_bomb,
    "leave" => family::leave,
    "kill-tree" => family::kill_tree,
    "broken-pipe" => family::broken_pipe,
    "unread" => family::unread,
    "tasks" => bombs::tasks,
    "streams" => bombs::streams,
    "trap" => endings::trap,
    "panic" => endings::panic,
    "trap-in-drop" => endings::trap_in_drop,
    "out-of-bounds" => endings::out_of_bounds,
    "exit" => endings::exit,
    "control" => endings::control,
}

verbs! { LOADS, load:
    "alloc" => loads::alloc,
    "zeroed" => loads::zeroed,
    "write" => loads::write,
    "create" => loads::create,
    "open" => loads::open,
    "print" => loads::print,
    "hold" => loads::hold,
    "lines" => loads::lines,
    "fetch" => loads::fetch,
    "upload" => loads::upload,
    "recurse" => loads::recurse,
    "nap" => loads::nap,
    "nest" => loads::nest,
    "start" => loads::start,
    "draw" => loads::draw,
    "burn" => loads::burn,
    "hand-over" => loads::hand_over,
    "cat" => loads::cat,
    "talk" => family::talk,
    "pipeline" => family::pipeline,
    "pour" => family::pour,
    "count" => family::count,
    "share" => family::share,
    "launch" => family::launch,
    "surroundings" => family::surroundings,
    "elsewhere" => family::elsewhere,
    "both" => family::both,
    "joined" => family::joined,
    "drip" => family::drip,
    "patience" => family::patience,
    "poll" => family::poll,
    "grandchild" => family::grandchild,
    "deaf" => family::deaf,
    "turns" => family::turns,
    "side-by-side" => family::side_by_side,
    "randomness" => sources::randomness,
    "clocks" => sources::clocks,
    "waits" => sources::waits,
    "file-metadata" => sources::files,
    "floats" => sources::floats,
}

#[skillhost_guest::main]
async fn main(args: Vec<String>) -> Result<ExitCode, String> {
    let verb = args.get(1).map_or("", String::as_str);
    let rest = args.get(2..).unwrap_or_default();
    if verb == "verbs" {
        ATTACKS.iter().for_each(|name| println!("attack {name}"));
        LOADS.iter().for_each(|name| println!("load {name}"));
        return Ok(ExitCode::SUCCESS);
    }
    let report = match attack(verb, rest).await {
        Some(report) => report,
        None => load(verb, rest)
            .await
            .ok_or_else(|| format!("no verb `{verb}`: see `hostile verbs`"))?,
    };
    println!("{}", report.line(verb));
    Ok(ExitCode::from(report.code()))
}
