//! The rules that a skill's folder and SKILL.md are held to: one table, which `check` reports from
//! and `docs/reference/rules.md` prints.

use crate::diagnostic::Severity;

/// What becomes of a skill that breaks a rule when it is loaded to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It loads: what is wrong has a safe reading.
    Loads,
    /// It loads whole, and is granted nothing.
    Ungranted,
    /// It loads with its name and description alone, asks for nothing and is granted nothing.
    GrantsNothing,
    /// It does not load.
    Refused,
}

/// One rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its stable name, which diagnostics carry.
    pub name: &'static str,
    /// `Error` where the skill is against a specification or cannot work, `Warning` where it may
    /// not work everywhere.
    pub severity: Severity,
    /// What becomes of a skill that breaks it.
    pub effect: Effect,
    /// What it asks for, in one sentence.
    pub says: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

macro_rules! rules {
    ($($id:ident $name:literal $severity:ident $effect:ident $says:literal $source:expr;)*) => {
        $(
            #[doc = $says]
            pub const $id: Rule =
                Rule { name: $name, severity: Severity::$severity, effect: Effect::$effect, says: $says, source: $source };
        )*
        /// Every rule, in the order of the documentation.
        pub const RULES: &[Rule] = &[$($id),*];
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
    SKILL_FOLDER "skill-folder" Error Refused "A skill is a folder that can be read." FOLDER;
    SKILL_MD_MISSING "skill-md-missing" Error Refused "The folder holds a regular file SKILL.md." FOLDER;
    SKILL_MD_CASE "skill-md-case" Warning Loads "The file is named SKILL.md, in capitals, and there is one only." FOLDER;
    SKILL_MD_SIZE "skill-md-size" Error Refused "SKILL.md has at most 1 MiB." OURS;
    SKILL_SIZE "skill-size" Error Refused "The files of a skill have at most 10 MiB together." OURS;
    SKILL_FILES "skill-files" Error Refused "A skill has at most 2,000 files and folders." OURS;
    UNREADABLE "unreadable" Error Refused "Every file and folder of the skill can be read." OURS;
    FILE_NAME "file-name" Error Loads "File names are UTF-8; a file with another name is left out." OURS;
    FILE_KIND "file-kind" Error Loads "A skill holds files, folders and symlinks; devices, pipes and sockets are left out." OURS;
    LINK_OUTSIDE "link-outside" Error Loads "A symlink leads to a place inside the skill; one that leads outside is left out, never followed." OURS;
    LINK_BROKEN "link-broken" Warning Loads "A symlink leads somewhere." OURS;

    FRONTMATTER_MISSING "frontmatter-missing" Error GrantsNothing "SKILL.md starts with YAML frontmatter between two lines `---`." FORMAT;
    FRONTMATTER_START "frontmatter-start" Error Loads "The frontmatter starts on the first line." FORMAT;
    FRONTMATTER_END "frontmatter-end" Error GrantsNothing "A line `---` ends the frontmatter." FORMAT;
    FRONTMATTER_SIZE "frontmatter-size" Error Refused "The frontmatter has at most 64 KiB." OURS;
    FENCE_BLANKS "fence-blanks" Warning Loads "Nothing follows the `---` that opens or closes the frontmatter, not even blanks." FORMAT;
    FRONTMATTER_NUL "frontmatter-nul" Error Refused "The frontmatter holds no NUL byte." YAML;
    FRONTMATTER_UTF8 "frontmatter-utf8" Error GrantsNothing "The frontmatter is UTF-8." YAML;
    BYTE_ORDER_MARK "byte-order-mark" Warning Loads "SKILL.md starts without a byte order mark." OURS;
    CRLF "crlf" Warning Loads "Lines end in LF." OURS;

    YAML_SYNTAX "yaml-syntax" Error GrantsNothing "The frontmatter is one YAML document." YAML;
    YAML_MAP "yaml-map" Error GrantsNothing "The frontmatter is a map of fields." FORMAT;
    YAML_BOUNDS "yaml-bounds" Error Refused
        "The frontmatter has at most 32 levels, 10,000 nodes, 50 aliases and 1,000 entries of `allowed-tools` or `disallowed-tools`." OURS;
    YAML_FEATURE "yaml-feature" Error Refused "The frontmatter uses no tags (`!x`) and no merge keys (`<<`), which clients read differently." OURS;
    DUPLICATE_KEY "duplicate-key" Error Refused "A key occurs once in its map." YAML;
    RECOVERED "recovered" Warning GrantsNothing
        "The frontmatter is read as YAML; a broken one is read line by line for name and description, and asks for nothing." OURS;

    UNKNOWN_FIELD "unknown-field" Warning Loads "Fields are name, description, license, compatibility, metadata and allowed-tools; `disallowed-tools` is read as well." FORMAT;
    PERMISSION_KEY "permission-key" Error Ungranted
        "No key is a misspelt `allowed-tools`, `disallowed-tools` or `metadata`, or below `metadata` a misspelt limit: letters are compared without case, with up to two edits." OURS;
    FIELD_TYPE "field-type" Error Loads "`name`, `description`, `license` and `compatibility` are strings." FORMAT;
    NAME_MISSING "name-missing" Error Loads "`name` is there and not empty; without it the folder's name holds." NAME;
    NAME_LENGTH "name-length" Error Loads "`name` has at most 64 characters." NAME;
    NAME_PATTERN "name-pattern" Error Loads "`name` is made of a-z, 0-9 and single hyphens that neither start nor end it." NAME;
    NAME_FOLDER "name-folder" Error Loads "`name` is the name of the folder." NAME;
    DESCRIPTION_MISSING "description-missing" Error Loads "`description` is there and not empty." DESCRIPTION;
    DESCRIPTION_LENGTH "description-length" Error Loads "`description` has at most 1,024 characters." DESCRIPTION;
    LICENSE_EMPTY "license-empty" Warning Loads "`license` names a licence or its file, where it is there." LICENSE;
    COMPATIBILITY_LENGTH "compatibility-length" Error Loads "`compatibility` has 1 to 500 characters, where it is there." COMPATIBILITY;
    METADATA_TYPE "metadata-type" Error Loads "`metadata` is a map." METADATA;
    METADATA_VALUE "metadata-value" Error Loads
        "`metadata` maps strings to strings; a number or boolean is read as it is written, a list or map is left out." METADATA;
    METADATA_COMPONENT "metadata-component" Error Refused "`metadata.component` is a relative path inside the skill, with `/` and without `..`." OURS;
    METADATA_LIMIT "metadata-limit" Error Refused "`metadata.timeout`, `memory` and `fuel` are a time, a size and a whole number." OURS;
    COMPONENT_MISSING "component-missing" Error Loads "The file that `metadata.component` names is in the skill." OURS;

    TOOLS_TYPE "allowed-tools-type" Error Refused "`allowed-tools` and `disallowed-tools` are strings (or lists of strings)." TOOLS;
    TOOLS_DENIAL "disallowed-tools-parentheses" Error Ungranted "Every `(` of `disallowed-tools` is closed." OURS;
    TOOLS_EMPTY "allowed-tools-empty" Warning Loads "`allowed-tools` without a value asks for nothing, and `disallowed-tools` denies nothing; write `\"\"` to say so." TOOLS;
    TOOLS_COMMAS "allowed-tools-commas" Warning Loads "Entries of `allowed-tools` and `disallowed-tools` are separated by spaces, not commas." TOOLS;
    TOOLS_LIST "allowed-tools-list" Warning Loads "`allowed-tools` and `disallowed-tools` are each one string, not a YAML list." TOOLS;
    TOOLS_PARENTHESES "allowed-tools-parentheses" Error Loads "Every `(` of `allowed-tools` is closed; an entry with an open one is granted nothing." TOOLS;

    BODY_LENGTH "body-length" Warning Loads "The instructions have at most 500 lines; details go into files of their own." BODY;
    BODY_NUL "body-nul" Warning Loads "The instructions hold no NUL bytes." OURS;
    BODY_UTF8 "body-utf8" Warning Loads "The instructions are UTF-8." OURS;
}
