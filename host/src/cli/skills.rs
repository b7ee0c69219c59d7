//! The skills that are there, for the verbs that take them by name.

use std::path::{Path, PathBuf};

use skillhost::catalog::{Catalog, CatalogError, Entry, Source, SourceKind};
use skillhost::policy::Policy;

use super::exit::Exit;
use super::places::Places;
use super::{Failure, show};

/// Where skills are looked for.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Skills")]
pub(crate) struct Skills {
    /// A folder of skills, which comes before the project's and yours (repeatable)
    #[arg(long = "skills", value_name = "DIR")]
    folders: Vec<PathBuf>,
}

/// What a name on the command line stands for.
pub(crate) enum Named {
    /// A folder, which the operator named.
    Path(PathBuf),
    /// A skill of the catalogue.
    Entry(Entry),
}

impl Named {
    /// The skill's folder.
    pub(crate) fn folder(&self) -> &Path {
        match self {
            Named::Path(path) => path,
            Named::Entry(entry) => &entry.folder,
        }
    }
}

/// The folders of a project, or of a user, that hold skills.
const STANDARD: [&str; 2] = [".agents/skills", ".claude/skills"];

impl Skills {
    /// Finds the skills.
    pub(crate) fn open(&self, places: &Places, policy: &Policy) -> Result<Catalog, Failure> {
        let catalog = Catalog::open(self.sources(places, policy), Some(&places.cache)).map_err(|error| match error {
            CatalogError::Folder { .. } => Failure::new(Exit::Usage, error.to_string()),
            CatalogError::Index(_) => Failure::new(Exit::Io, error.to_string()),
        })?;
        let enabled = places.approvals().enabled(policy).map_err(super::ask::failure)?;
        catalog.set_enabled(move |entry| enabled(&entry.name, entry.network));
        Ok(catalog)
    }

    /// The folders that skills run from, for a host to keep guests from writing them.
    pub(crate) fn folders(&self, places: &Places, policy: &Policy) -> Vec<PathBuf> {
        self.sources(places, policy).into_iter().map(|source| source.folder).collect()
    }

    /// Where to look, in the order of precedence: of two skills of one name, the first counts.
    fn sources(&self, places: &Places, policy: &Policy) -> Vec<Source> {
        let mut sources = Vec::new();
        let mut add = |folder: PathBuf, kind| {
            let folder = std::path::absolute(&folder).unwrap_or(folder);
            if !sources.iter().any(|source: &Source| source.folder == folder) {
                sources.push(Source { folder, kind });
            }
        };
        self.folders.iter().for_each(|folder| add(folder.clone(), SourceKind::Flag));
        let project = project(&places.home);
        project.iter().flat_map(|project| STANDARD.map(|name| project.join(name))).for_each(|folder| add(folder, SourceKind::Project));
        STANDARD.into_iter().for_each(|name| add(places.home.join(name), SourceKind::User));
        policy.folders.iter().for_each(|folder| add(folder.clone(), SourceKind::Policy));
        places.built_in_skills().into_iter().for_each(|folder| add(folder, SourceKind::BuiltIn));
        sources
    }

    /// The folder of a skill that was named: the folder itself where there is one, else that of the catalogue's skill of that name.
    pub(crate) fn folder(&self, named: &Path, places: &Places, policy: &Policy) -> Result<Named, Failure> {
        let name = named.to_str().filter(|name| !name.is_empty() && !name.contains('/') && !name.starts_with('.'));
        let Some(name) = name.filter(|_| named.symlink_metadata().is_err()) else { return Ok(Named::Path(named.to_owned())) };
        let catalog = self.open(places, policy)?;
        let Some(entry) = catalog.get(name) else {
            // It is the loader that says what is missing.
            show::help(near(name, &catalog).as_deref());
            return Ok(Named::Path(named.to_owned()));
        };
        show::note(&format!("{name} is {}", entry.folder.display()));
        Ok(Named::Entry(entry))
    }

    /// The skill of a name.
    pub(crate) fn find(&self, name: &str, catalog: &Catalog) -> Result<Entry, Failure> {
        if let Some(entry) = catalog.get(name) {
            return Ok(entry);
        }
        let fix = near(name, catalog).unwrap_or_else(|| "skillhost search QUERY".into());
        Err(Failure::new(Exit::Usage, format!("the catalogue has no skill `{name}`")).fix(fix))
    }
}

/// The name that was probably meant.
fn near(name: &str, catalog: &Catalog) -> Option<String> {
    let entries = catalog.entries();
    let (slips, near) = entries.iter().map(|entry| (strsim::osa_distance(name, &entry.name), &entry.name)).min()?;
    (slips * 3 <= name.chars().count()).then(|| format!("is it {near}?"))
}

/// The project that is worked in: the repository that holds this folder, else this folder. The home folder is none.
fn project(home: &Path) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the command line is used in a folder")]
    let here = std::env::current_dir().ok()?;
    let repository = here.ancestors().take_while(|folder| *folder != home).find(|folder| folder.join(".git").exists());
    Some(repository.unwrap_or(&here).to_owned()).filter(|project| project != home)
}
