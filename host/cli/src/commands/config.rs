//! `skillhost config`: show the settings in force, and where each comes from.

use clap::Subcommand;
use serde::Serialize;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::{Layer, Policy, Rule};

use crate::args::permissions::PolicyFile;
use crate::args::skills::Skills;
use crate::args::{HostArgs, RuntimesArg};
use crate::context::{self, Context, Places};
use crate::error::{CliError, Exit};
use crate::output;

/// Show the settings in force, and where each comes from
///
/// Each is built in, or comes from a line of the policy file, a variable or a flag. Sections of the
/// policy for single skills are not included; `run SKILL --explain` shows what they grant.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost config show
  skillhost config show --policy policy.yaml --json | jq -r '.[] | select(.origin != \"built-in\")'")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the settings with their origins
    Show {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        policy: PolicyFile,
        #[command(flatten)]
        runtimes: RuntimesArg,
    },
}

/// A setting in force.
#[derive(Debug, Serialize)]
struct Setting {
    name: String,
    value: String,
    /// `built-in`, a place in the policy file, `$VARIABLE` or `--flag`.
    origin: String,
}

const BUILT_IN: &str = "built-in";

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let Action::Show { json, policy: file, runtimes } = &args.action;
    let context = Context::with_file(file)?;
    Skills::default().warn_of_unknown_sections(None, &context);
    Skills::default().warn_of_missing_folders(&context, true);
    let Context { places, policy } = context;
    let mut settings = folders(&places);
    settings.push(match file.found(&places) {
        Some((path, named_by)) => setting("policy", path.display(), named_by),
        None => setting("policy", "built-in policy", BUILT_IN),
    });
    let host = HostArgs { runtimes: runtimes.clone(), ..HostArgs::default() };
    let origin = context::runtimes_origin(runtimes).unwrap_or(BUILT_IN);
    for folder in places.host_options(&host)?.programs {
        settings.push(setting("programs", folder.display(), origin));
    }
    settings.extend(rules(&policy));
    settings.extend(limits(&policy));
    if *json {
        output::json(&settings)?;
    } else {
        let rows = settings.into_iter().map(|Setting { name, value, origin }| {
            [name, value, origin].map(|cell| printable(&cell))
        });
        output::text(&output::table(["setting", "value", "origin"], rows, 0..0))?;
    }
    Ok(Exit::Ok)
}

/// The folders of this user.
fn folders(places: &Places) -> Vec<Setting> {
    let folders = [
        ("config folder", &places.config, "XDG_CONFIG_HOME"),
        ("state folder", &places.state, "XDG_STATE_HOME"),
        ("data folder", &places.data, "XDG_DATA_HOME"),
        ("cache folder", &places.cache, "XDG_CACHE_HOME"),
        ("scratch folder", &places.scratch, "TMPDIR"),
    ];
    let mut settings: Vec<Setting> = folders
        .into_iter()
        .map(|(name, folder, variable)| {
            #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
            let is_set = std::env::var_os(variable).is_some_and(|value| !value.is_empty());
            let variable = format!("${variable}");
            setting(name, folder.display(), if is_set { &variable } else { BUILT_IN })
        })
        .collect();
    settings.push(setting("audit log", places.audit().display(), BUILT_IN));
    settings
}

/// The entries that apply to every skill.
fn rules(policy: &Policy) -> Vec<Setting> {
    let layers = || policy.layers.iter().filter(|layer| layer.applies_to.is_none());
    let each = |name: &'static str, rules: fn(&Layer) -> &Vec<Rule>| {
        let rules = layers().flat_map(rules);
        rules.map(|rule| setting(name, &rule.text, &rule.place)).collect::<Vec<_>>()
    };
    let mut settings = each("allow", |layer| &layer.allow);
    settings.extend(each("deny", |layer| &layer.deny));
    let mounts = layers().flat_map(|layer| &layer.mounts);
    settings.extend(mounts.map(|rule| {
        let folders = format!("{} = {}", rule.mount.guest, rule.mount.host.display());
        setting("mount", folders, &rule.place)
    }));
    // Values are secrets.
    let env = layers().flat_map(|layer| &layer.env);
    settings.extend(env.map(|rule| setting("variable", &rule.name, &rule.place)));
    settings
}

/// Every limit.
fn limits(policy: &Policy) -> Vec<Setting> {
    let defaults = Limits::default();
    let layers = || policy.layers.iter().filter(|layer| layer.applies_to.is_none());
    let limit = |limit: Limit| {
        let rule = layers()
            .rev()
            .flat_map(|layer| layer.limits.iter().rev())
            .find(|rule| rule.limit == limit);
        let value = rule.map(|rule| rule.value).or_else(|| defaults.get(limit));
        let value = value.map_or_else(|| "off".to_owned(), |value| limit.show(value));
        setting(limit.key(), value, rule.map_or(BUILT_IN, |rule| &rule.place))
    };
    Limit::ALL.into_iter().map(limit).collect()
}

fn setting(name: &str, value: impl ToString, origin: &str) -> Setting {
    let origin = if origin == "built-in policy" { BUILT_IN } else { origin };
    Setting { name: name.to_owned(), value: value.to_string(), origin: origin.to_owned() }
}
