//! Finds the parts of a skill that can run, and judges each of them. Then applies the result to the
//! parts that use it.

use std::collections::{HashMap, HashSet};

use super::judge::{Facts, Judge, Judged, Use};
use super::need::{Need, NeedEffect, NeedKind, NeedStatus, Place};
use super::{
    Caller, Compatibility, Reach, Role, ScriptReport, SupportLevel, dependencies,
    javascript_script, python_script, references, shell_blocks, shell_script,
};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::limits::show_size;
use skillhost_policy::manifest::requires::Required;
use skillhost_skill::Skill;
use skillhost_skill::files::SkillFile;
use skillhost_skill::runtime::scripts;

/// The most bytes of a script that are read. The longest in use has about 200 KB.
pub(super) const MAX_SCRIPT: u64 = 1 << 20;

/// Reports what the scripts of a skill need, and whether the sandbox provides it under the skill's
/// capabilities.
///
/// Reads the scripts and runs nothing. Reports a file that is larger than 1 MiB as not analyzed.
pub fn check(skill: &Skill, capabilities: &Capabilities) -> Compatibility {
    check_parsed(skill, capabilities, &[])
}

/// Does the same as [`check`], for a skill some of whose scripts do not parse. `unparsed` has the
/// places of their errors.
pub fn check_parsed(
    skill: &Skill,
    capabilities: &Capabilities,
    unparsed: &[Place],
) -> Compatibility {
    let facts = Facts::of(skill, capabilities);
    let mut units: Vec<Unit> = skill
        .files
        .iter()
        .filter(|file| file.link.is_none())
        .filter_map(|file| unit(&facts, skill, file))
        .collect();
    units.extend(
        shell_blocks::find(&skill.source, skill.body_offset)
            .iter()
            .filter_map(|found| block(&facts, skill, found)),
    );
    let mut units = without_web_files(units);
    mark_modules(&mut units);
    unparsed.iter().for_each(|place| mark_unparsed(&mut units, place));
    follow_uses(&mut units);
    let mut needs =
        references::missing(&facts, &skill.skill_file, &skill.source, skill.body_offset);
    needs.extend(declared_needs(&facts, skill, &units));
    needs.extend(required_needs(&facts, skill));
    let scripts: Vec<ScriptReport> = units.into_iter().map(|unit| unit.script).collect();
    Compatibility { verdict: verdict(&scripts), scripts, needs }
}

/// A script, and the files that it uses.
struct Unit {
    script: ScriptReport,
    uses: Vec<Use>,
    /// Whether it does something when it is run directly.
    main: bool,
    /// Whether it is a part of the skill by itself, and not only as a module of one.
    is_program: bool,
}

fn unit(facts: &Facts<'_>, skill: &Skill, file: &SkillFile) -> Option<Unit> {
    let path = file.path.as_str();
    if skill.manifest.component.as_deref() == Some(path) {
        return Some(Unit::new(
            path,
            Role::Component,
            "wasm",
            Judged { needs: Vec::new(), uses: Vec::new() },
        ));
    }
    if path == skill.skill_file || scripts::is_of_package(path) {
        return None;
    }
    let scripts::SkillScript { run, .. } = scripts::script_at(skill, path)?;
    let large = file.size > MAX_SCRIPT;
    let bytes = if large { Vec::new() } else { skill.read(path).ok()? };
    let text = String::from_utf8_lossy(&bytes);
    let mut judge = Judge::new(facts, path, &text, Role::Script);
    if large {
        let message =
            format!("the file is larger than {} and was not analyzed", show_size(MAX_SCRIPT));
        let need = Need {
            message: Some(message),
            ..judge.blank(NeedKind::File, path, NeedStatus::NotRead)
        };
        judge.add(0, need);
    }
    let program = match run {
        Ok(by) if by.command == "python3" => {
            python_script::judge(&mut judge, &text, 0..text.len(), 0);
            by.command
        }
        Ok(by) if by.command == "node" => {
            javascript_script::judge(&mut judge, &text, 0, 0);
            by.command
        }
        Ok(by) => {
            shell_script::judge(&mut judge, &text, 0..text.len(), Reach::Always, Caller::Shell, 0);
            by.command
        }
        Err(language) => {
            // Skip files of web pages and templates.
            if !scripts::is_for_running(skill, path) {
                return None;
            }
            let message =
                format!("{language} is not supported; write scripts in Python, JavaScript or bash");
            let fix = Some("rewrite it in one of these, or compile it to a component".to_owned());
            let need = Need {
                effect: NeedEffect::Whole,
                message: Some(message),
                fix,
                ..judge.blank(NeedKind::Language, &language, NeedStatus::Unavailable)
            };
            judge.add(0, need);
            language
        }
    };
    let mut unit = Unit::new(path, Role::Script, &program, judge.finish());
    unit.main = scripts::starts_itself(path, &text);
    unit.is_program = scripts::is_program(skill, path);
    Some(unit)
}

fn block(facts: &Facts<'_>, skill: &Skill, found: &shell_blocks::Block) -> Option<Unit> {
    let mut judge = Judge::new(facts, &skill.skill_file, &skill.source, Role::Block);
    for part in &found.parts {
        shell_script::judge(
            &mut judge,
            &skill.source,
            part.clone(),
            Reach::Always,
            Caller::Shell,
            0,
        );
    }
    let judged = judge.finish();
    let nothing = judged.needs.is_empty() && judged.uses.is_empty();
    let mut unit = Unit::new(&skill.skill_file, Role::Block, "bash", judged);
    unit.script.line = Some(found.line);
    (!nothing).then_some(unit)
}

impl Unit {
    fn new(file: &str, role: Role, program: &str, judged: Judged) -> Unit {
        let Judged { needs, uses } = judged;
        let (file, program, verdict) = (file.to_owned(), program.to_owned(), SupportLevel::Full);
        Unit {
            script: ScriptReport { file, line: None, role, program, verdict, needs },
            uses,
            main: true,
            is_program: true,
        }
    }
}

/// Removes the files of web pages and templates: those that neither are programs of the skill nor are
/// used by one.
fn without_web_files(units: Vec<Unit>) -> Vec<Unit> {
    let by_path: HashMap<&str, &Unit> =
        units.iter().map(|unit| (unit.script.file.as_str(), unit)).collect();
    let mut reached: Vec<&Unit> = units.iter().filter(|unit| unit.is_program).collect();
    let mut kept: HashSet<String> = reached.iter().map(|unit| unit.script.file.clone()).collect();
    while let Some(unit) = reached.pop() {
        for used in &unit.uses {
            if let Some(other) = by_path.get(used.path.as_str())
                && kept.insert(used.path.clone())
            {
                reached.push(other);
            }
        }
    }
    units.into_iter().filter(|unit| kept.contains(&unit.script.file)).collect()
}

/// Marks files as modules if scripts import them and they do nothing when run directly.
fn mark_modules(units: &mut [Unit]) {
    let imported = units.iter().flat_map(|unit| &unit.uses).filter(|used| used.imported);
    let imported: HashSet<String> = imported.map(|used| used.path.clone()).collect();
    for unit in units.iter_mut().filter(|unit| unit.script.role == Role::Script) {
        let package = unit.script.file.ends_with("__init__.py");
        if package || (!unit.main && imported.contains(&unit.script.file)) {
            unit.script.role = Role::Module;
        }
    }
}

/// Adds to a script that it does not parse, so that no run of it can succeed.
fn mark_unparsed(units: &mut [Unit], place: &Place) {
    let scripts = units.iter_mut().map(|unit| &mut unit.script);
    for script in scripts.filter(|s| s.role != Role::Block && s.file == place.file) {
        script.needs.push(Need {
            kind: NeedKind::File,
            name: place.file.clone(),
            status: NeedStatus::Invalid,
            effect: NeedEffect::Whole,
            version: None,
            place: place.clone(),
            message: Some("the script does not parse".to_owned()),
            fix: None,
        });
    }
}

/// Computes the verdict of each unit, and adds a need to units that use a file with problems.
fn follow_uses(units: &mut [Unit]) {
    /// The most steps from file to file.
    const MAX_STEPS: usize = 20;
    for _ in 0..MAX_STEPS {
        for unit in units.iter_mut() {
            unit.script.verdict = own_verdict(&unit.script.needs);
        }
        let verdicts: HashMap<String, SupportLevel> = units
            .iter()
            .filter(|u| u.script.role != Role::Block)
            .map(|u| (u.script.file.clone(), u.script.verdict))
            .collect();
        let mut changed = false;
        for unit in units.iter_mut() {
            for Use { path, place, reach, .. } in &unit.uses {
                let effect = match (verdicts.get(path), reach) {
                    (Some(SupportLevel::Unsupported), Reach::Always) => NeedEffect::Whole,
                    (Some(SupportLevel::Unsupported), Reach::Sometimes)
                    | (Some(SupportLevel::Partial), _) => NeedEffect::Part,
                    _ => continue,
                };
                let level = verdicts.get(path).map_or("", |verdict| verdict.description());
                let needs = &mut unit.script.needs;
                let known =
                    needs.iter_mut().find(|need| need.kind == NeedKind::File && need.name == *path);
                match known {
                    Some(known) if known.effect >= effect => continue,
                    Some(known) => {
                        (known.effect, known.message) =
                            (effect, Some(format!("it uses `{path}`, which is {level}")))
                    }
                    None => needs.push(Need {
                        kind: NeedKind::File,
                        name: path.clone(),
                        status: NeedStatus::Missing,
                        effect,
                        version: None,
                        place: place.clone(),
                        message: Some(format!("it uses `{path}`, which is {level}")),
                        fix: None,
                    }),
                }
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

fn own_verdict(needs: &[Need]) -> SupportLevel {
    match needs.iter().map(|need| need.effect).max() {
        Some(NeedEffect::Whole) => SupportLevel::Unsupported,
        Some(NeedEffect::Part) => SupportLevel::Partial,
        _ => SupportLevel::Full,
    }
}

/// Computes the verdict of a skill from its scripts, or from its blocks if it has no scripts.
fn verdict(scripts: &[ScriptReport]) -> SupportLevel {
    let of = |block: bool| {
        let counted =
            move |s: &&ScriptReport| s.role != Role::Module && (s.role == Role::Block) == block;
        scripts.iter().filter(counted).map(|s| s.verdict).collect::<Vec<SupportLevel>>()
    };
    let (files, blocks) = (of(false), of(true));
    let main = if files.is_empty() { &blocks } else { &files };
    let all = |verdict| files.iter().chain(&blocks).all(|v| *v == verdict);
    match main.as_slice() {
        [] => SupportLevel::InstructionsOnly,
        _ if all(SupportLevel::Full) => SupportLevel::Full,
        main if main.iter().all(|v| *v == SupportLevel::Unsupported) => SupportLevel::Unsupported,
        _ => SupportLevel::Partial,
    }
}

/// Returns the unmet needs from `metadata.requires`.
fn required_needs(facts: &Facts<'_>, skill: &Skill) -> Vec<Need> {
    let text = &skill.source[..skill.body_offset];
    let mut judge = Judge::new(facts, &skill.skill_file, text, Role::Module);
    for required in &skill.manifest.requires {
        // Each line is written as it is shown, unless it has more white space.
        let offset = text.find(&required.to_string()).unwrap_or_default();
        match required {
            Required::Skill { .. } => {}
            Required::Command(name) => {
                let argv = [Some(name.clone())];
                judge.command(&argv, offset, Reach::Always, Caller::Program);
            }
            Required::Python(package) => {
                for dependency in dependencies::requirements(package) {
                    judge.declared(&dependency, offset, NeedEffect::None);
                }
            }
            Required::Npm(package) => {
                if let Some(dependency) = dependencies::npm_package(package) {
                    judge.declared_npm(&dependency, offset, NeedEffect::None);
                }
            }
        }
    }
    judge.finish().needs.into_iter().filter(Need::is_unmet).collect()
}

/// Returns the unmet needs from `requirements.txt`, `pyproject.toml` and the `package.json` of scripts
/// that no script has itself.
fn declared_needs(facts: &Facts<'_>, skill: &Skill, units: &[Unit]) -> Vec<Need> {
    let known: HashSet<&str> = units
        .iter()
        .flat_map(|u| &u.script.needs)
        .filter(|n| n.kind == NeedKind::Package)
        .map(|n| n.name.as_str())
        .collect();
    let mut found = Vec::new();
    for file in skill.files.iter().filter(|file| file.size <= MAX_SCRIPT && file.link.is_none()) {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let has_scripts = || {
            let scripts = units.iter().filter(|unit| unit.script.program == "node");
            let below =
                |path: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
            scripts.into_iter().any(|unit| folder.is_empty() || below(&unit.script.file))
        };
        let read = match name {
            "requirements.txt" => dependencies::requirements,
            "pyproject.toml" => dependencies::project,
            "package.json" if !scripts::is_of_package(&file.path) && has_scripts() => {
                dependencies::package_json
            }
            _ => continue,
        };
        let Ok(bytes) = skill.read(&file.path) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let mut judge = Judge::new(facts, &file.path, &text, Role::Module);
        for dependency in read(&text) {
            match name {
                "package.json" => {
                    judge.declared_npm(&dependency, dependency.offset, NeedEffect::None)
                }
                _ => judge.declared(&dependency, dependency.offset, NeedEffect::None),
            }
        }
        found.extend(
            judge
                .finish()
                .needs
                .into_iter()
                .filter(|need| need.is_unmet() && !known.contains(need.name.as_str())),
        );
    }
    found
}
