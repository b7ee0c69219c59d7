//! The rules for a skill's folder and SKILL.md, in one table. `check` reports from it, and
//! `docs/reference/rules.md` prints it.

use crate::diagnostic::Severity;

/// The effect of a violated rule on loading a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadEffect {
    /// The skill loads: the problem has a safe interpretation.
    Loads,
    /// The skill loads completely, but is granted nothing.
    Ungranted,
    /// Only the name and description load. The skill requests nothing and is granted nothing.
    GrantsNothing,
    /// The skill does not load.
    Refused,
}

/// One rule.
#[derive(Debug, PartialEq, Eq)]
pub struct SkillRule {
    /// Its stable name, which diagnostics contain.
    pub name: &'static str,
    /// `Error` if the skill violates a specification or cannot work, `Warning` if it may not work
    /// everywhere, `Note` if a person should look at it.
    pub severity: Severity,
    /// The effect on a skill that violates the rule.
    pub effect: LoadEffect,
    /// What the rule requires, in one sentence.
    pub says: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
}

macro_rules! rules {
    ($($id:ident $name:literal $severity:ident $effect:ident $says:literal $source:expr;)*) => {
        $(
            #[doc = $says]
            pub const $id: SkillRule =
                SkillRule { name: $name, severity: Severity::$severity, effect: LoadEffect::$effect, says: $says, source: $source };
        )*
        /// Every rule, in the order of the documentation.
        pub const RULES: &[SkillRule] = &[$($id),*];
    };
}

const FOLDER: &str = "Agent Skills specification, directory structure";
const FORMAT: &str = "Agent Skills specification, SKILL.md format";
const NAME: &str = "Agent Skills specification, `name` field";
const DESCRIPTION: &str = "Agent Skills specification, `description` field";
const LICENSE: &str = "Agent Skills specification, `license` field";
const COMPATIBILITY: &str = "Agent Skills specification, `compatibility` field";
const METADATA: &str = "Agent Skills specification, `metadata` field";
const TOOLS: &str = "Agent Skills specification, `allowed-tools` field";
const BODY: &str = "Agent Skills specification, progressive disclosure";
const YAML: &str = "YAML 1.2.2";
const OURS: &str = "skillhost";

rules! {
    SKILL_FOLDER "skill-folder" Error Refused "A skill is a readable folder." FOLDER;
    SKILL_MD_MISSING "skill-md-missing" Error Refused "The folder contains a regular file SKILL.md." FOLDER;
    SKILL_MD_CASE "skill-md-case" Warning Loads "The file is named exactly SKILL.md, and there is no other spelling of it." FOLDER;
    SKILL_MD_SIZE "skill-md-size" Error Refused "SKILL.md is at most 1 MiB." OURS;
    SKILL_SIZE "skill-size" Error Refused "The files of a skill are at most 10 MiB in total, or what `--skill-size` or the policy's `skill-size` says." OURS;
    SKILL_FILES "skill-files" Error Refused "A skill has at most 2,000 files and folders, for each 10 MiB of `skill-size`." OURS;
    SKILLIGNORE "skillignore" Error Refused "The file .skillignore is a regular file of at most 16 KiB and 256 lines with patterns in the syntax of gitignore." OURS;
    POLICY_REQUIRE "policy-require" Error Refused "The skill meets what `require` of the policy demands: signatures, sources and scans." OURS;
    REQUIRED_SKILL "required-skill" Error Refused
        "The skills that `metadata.requires` names are installed, in versions that fit, and no skill requires itself. A run does not start otherwise." OURS;
    UNREADABLE "unreadable" Error Refused "Every file and folder of the skill is readable." OURS;
    FILE_NAME "file-name" Error Loads "File names are valid UTF-8. Other files are ignored." OURS;
    FILE_KIND "file-kind" Error Loads "A skill contains files, folders and symlinks. Devices, pipes and sockets are ignored." OURS;
    LINK_OUTSIDE "link-outside" Error Loads "A symlink points inside the skill. One that points outside is ignored and never followed." OURS;
    LINK_BROKEN "link-broken" Warning Loads "A symlink points to a file or folder that exists." OURS;

    FRONTMATTER_MISSING "frontmatter-missing" Error GrantsNothing "SKILL.md starts with YAML frontmatter between two lines `---`." FORMAT;
    FRONTMATTER_START "frontmatter-start" Error Loads "The frontmatter starts on the first line." FORMAT;
    FRONTMATTER_END "frontmatter-end" Error GrantsNothing "A line `---` ends the frontmatter." FORMAT;
    FRONTMATTER_SIZE "frontmatter-size" Error Refused "The frontmatter is at most 64 KiB." OURS;
    FENCE_BLANKS "fence-blanks" Warning Loads "Nothing follows the `---` that opens or closes the frontmatter, not even spaces." FORMAT;
    FRONTMATTER_NUL "frontmatter-nul" Error Refused "The frontmatter contains no NUL bytes." YAML;
    FRONTMATTER_UTF8 "frontmatter-utf8" Error GrantsNothing "The frontmatter is valid UTF-8." YAML;
    BYTE_ORDER_MARK "byte-order-mark" Warning Loads "SKILL.md has no byte order mark." OURS;
    CRLF "crlf" Warning Loads "Lines end in LF." OURS;

    YAML_SYNTAX "yaml-syntax" Error GrantsNothing "The frontmatter is one YAML document." YAML;
    YAML_MAP "yaml-map" Error GrantsNothing "The frontmatter is a map of fields." FORMAT;
    YAML_BOUNDS "yaml-bounds" Error Refused
        "The frontmatter has at most 32 levels, 10,000 nodes, 50 aliases and 1,000 entries of `allowed-tools` or `disallowed-tools`." OURS;
    YAML_FEATURE "yaml-feature" Error Refused "The frontmatter has no tags (`!x`) and no merge keys (`<<`), because clients interpret them differently." OURS;
    DUPLICATE_KEY "duplicate-key" Error Refused "A key occurs only once in its map." YAML;
    RECOVERED "recovered" Warning GrantsNothing
        "The frontmatter parses as YAML. From broken frontmatter, only the name, the description and who may start the skill are read, and the skill requests nothing." OURS;

    UNKNOWN_FIELD "unknown-field" Warning Loads "The fields are name, description, license, compatibility, metadata and allowed-tools. `disallowed-tools`, `disable-model-invocation`, `user-invocable` and `argument-hint` are supported too." FORMAT;
    CLIENT_FIELD "client-field" Warning Loads "No field has a meaning for one client only, such as `model` or `hooks` for Claude Code. skillhost ignores it." OURS;
    CLIENT_FIELD_TYPE "client-field-type" Warning Loads
        "`disable-model-invocation` and `user-invocable` are booleans, and `argument-hint` is a string of at most 200 characters. Any other value counts as the stricter one: `true` for the first, `false` for the second." OURS;
    PERMISSION_KEY "permission-key" Error Ungranted
        "No key is a misspelt `allowed-tools`, `disallowed-tools` or `metadata`, and no key of `metadata` is a misspelt limit. The comparison ignores case and allows up to two edits." OURS;
    FIELD_TYPE "field-type" Error Loads "`name`, `description`, `license` and `compatibility` are strings." FORMAT;
    NAME_MISSING "name-missing" Error Loads "`name` is present and not empty. Without it, the folder's name is used." NAME;
    NAME_LENGTH "name-length" Error Loads "`name` has at most 64 characters." NAME;
    NAME_PATTERN "name-pattern" Error Loads "`name` consists of a-z, 0-9 and single hyphens, and neither starts nor ends with a hyphen." NAME;
    NAME_FOLDER "name-folder" Error Loads "`name` equals the name of the folder." NAME;
    HIDDEN_CHARACTERS "hidden-characters" Error Loads
        "`name` and `description` contain no invisible characters and none that reorder text (U+061C, U+180E, U+200B to U+200F, U+2028 to U+202E, U+2060 to U+2069, U+FEFF, U+E0000 to U+E007F). Zero-width joiners inside emoji are allowed." OURS;
    DESCRIPTION_MISSING "description-missing" Error Loads "`description` is present and not empty." DESCRIPTION;
    DESCRIPTION_LENGTH "description-length" Error Loads "`description` has at most 1,024 characters." DESCRIPTION;
    LICENSE_EMPTY "license-empty" Warning Loads "`license`, if present, names a licence or its file." LICENSE;
    COMPATIBILITY_LENGTH "compatibility-length" Error Loads "`compatibility`, if present, has 1 to 500 characters." COMPATIBILITY;
    METADATA_TYPE "metadata-type" Error Loads "`metadata` is a map." METADATA;
    METADATA_VALUE "metadata-value" Error Loads
        "`metadata` maps strings to strings. A number or boolean is read as written, and a list or map is ignored." METADATA;
    METADATA_COMPONENT "metadata-component" Error Refused "`metadata.component` is a relative path inside the skill, with `/` and without `..`." OURS;
    METADATA_LIMIT "metadata-limit" Error Refused "`metadata.timeout`, `memory` and `fuel` are a time, a size and a whole number." OURS;
    METADATA_SETTINGS "metadata-settings" Error Refused "`metadata.settings` declares at most 32 settings, one per line: `NAME: TYPE = DEFAULT`." OURS;
    METADATA_REQUIRES "metadata-requires" Error Loads
        "`metadata.requires` names at most 32 skills, commands and packages, one per line. From an invalid one, nothing is read." OURS;
    COMPONENT_MISSING "component-missing" Error Loads "The file that `metadata.component` names exists in the skill." OURS;

    TOOLS_TYPE "allowed-tools-type" Error Refused "`allowed-tools` and `disallowed-tools` are strings (or lists of strings)." TOOLS;
    TOOLS_DENIAL "disallowed-tools-parentheses" Error Ungranted "Every `(` of `disallowed-tools` is closed." OURS;
    TOOLS_UNKNOWN "unknown-tool" Warning Loads
        "The names in `allowed-tools` and `disallowed-tools` are not misspelt. A name is misspelt if one edit for every four letters makes it Read, Write, Bash, WebFetch or another name of these tools. Other clients' names and MCP tools are not misspelt." OURS;
    TOOLS_EMPTY "allowed-tools-empty" Warning Loads "`allowed-tools` without a value requests nothing, and `disallowed-tools` denies nothing. Write `\"\"` to make this explicit." TOOLS;
    TOOLS_COMMAS "allowed-tools-commas" Warning Loads "Entries of `allowed-tools` and `disallowed-tools` are separated by spaces, not commas." TOOLS;
    TOOLS_LIST "allowed-tools-list" Warning Loads "`allowed-tools` and `disallowed-tools` are each one string, not a YAML list." TOOLS;
    TOOLS_PARENTHESES "allowed-tools-parentheses" Error Loads "Every `(` of `allowed-tools` is closed. An entry with an unclosed one grants nothing." TOOLS;

    CLIENT_COMMAND "client-command" Warning Loads "The instructions contain no commands for Claude Code (`` !`command` ``). skillhost never runs them." OURS;
    BODY_LENGTH "body-length" Warning Loads "The instructions have at most 500 lines. Details belong in separate files." BODY;
    BODY_NUL "body-nul" Warning Loads "The instructions contain no NUL bytes." OURS;
    BODY_UTF8 "body-utf8" Warning Loads "The instructions are valid UTF-8." OURS;

    HIDDEN_TEXT "hidden-text" Error Loads
        "No text file contains characters that spell text invisibly or reorder it, nor invisible characters inside words. Emoji and other scripts than Latin may use them." OURS;
    UNSAFE_DOWNLOAD "unsafe-download" Error Loads
        "Nothing is executed that is downloaded without encryption, from an IP address, from a site where anyone can post a text, or from a shortened link." OURS;
    PREREQUISITE_DOWNLOAD "prerequisite-download" Error Loads
        "The instructions do not ask for an archive with a password, a text from such a site, or a program that is downloaded and started." OURS;
    OBFUSCATED_CODE "obfuscated-code" Error Loads "Nothing is executed that was decoded from base64, hex digits or numbers." OURS;
    SECRET "secret" Error Loads "No file contains a private key or a token of a known service." OURS;
    INSTRUCTION_OVERRIDE "instruction-override" Error Loads
        "The instructions do not tell an agent to disregard other instructions, or to hide from its user what it does." OURS;
    PIPE_TO_SHELL "pipe-to-shell" Note Loads
        "Nothing is downloaded and executed unseen (`curl ... | sh`). Installers of well-known programs do this, so it is only a note." OURS;
}
