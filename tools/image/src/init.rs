//! Pass: removes the export `exports`, by which componentize-py starts the interpreter while it
//! builds the image.

use wasm_encoder::{
    ComponentExportKind, ComponentExportSection, ComponentInstanceSection, ComponentSectionId,
};
use wasmparser::{
    BinaryReader, CanonicalFunction, ComponentExportSectionReader, ComponentExternalKind,
    ComponentInstance, ComponentInstanceSectionReader,
};

use crate::component::{Part, Wiring};
use crate::error::{Error, Result};

/// The number of parts of an exported function: the lifted function, a component that renames it,
/// an instance of that component, and the export of the instance.
const GROUP: usize = 4;

/// Removes the export, which is the last but one. The last export takes its place.
pub(crate) fn remove_init(wiring: &mut Wiring) -> Result<()> {
    let lifts: Vec<usize> = (0..)
        .zip(&wiring.parts)
        .filter(|(_, part)| {
            matches!(part, Part::Canonical { function: CanonicalFunction::Lift { .. }, .. })
        })
        .map(|(at, _)| at)
        .collect();
    let [init, run] = lifts[..] else {
        return Err(Error::new("the component does not export exactly two functions"));
    };
    let group = |start: usize| match wiring.parts.get(start..start + GROUP)? {
        [
            _,
            Part::Section { id: component, .. },
            Part::Section { id: instance, data: instances },
            Part::Section { id: export, data: exports },
        ] => ([*component, *instance, *export] == IDS).then_some((*instances, *exports)),
        _ => None,
    };
    let (Some((_, init_export)), Some((instances, exports))) = (group(init), group(run)) else {
        return Err(Error::new("an export is not that of a renamed function"));
    };
    if run + GROUP != wiring.parts.len() || !init_export.windows(7).any(|name| name == b"exports") {
        return Err(Error::new("the export `exports` is not the last but one"));
    }
    let replaced =
        [Part::Instances(moved_instance(instances)?), Part::Exports(moved_export(exports)?)];
    wiring.parts.truncate(run + 2);
    wiring.parts.extend(replaced);
    wiring.parts.drain(init..init + GROUP);
    Ok(())
}

const IDS: [u8; 3] = [
    ComponentSectionId::Component as u8,
    ComponentSectionId::Instance as u8,
    ComponentSectionId::Export as u8,
];

/// The component that renames the function was the second and becomes the first. The index of the
/// function decreases by one.
fn moved_instance(section: &[u8]) -> Result<ComponentInstanceSection> {
    let mut reader =
        ComponentInstanceSectionReader::new(BinaryReader::new(section, 0))?.into_iter();
    let (Some(Ok(ComponentInstance::Instantiate { component_index: 1, args })), None) =
        (reader.next(), reader.next())
    else {
        return Err(Error::new("expected one instance of the component that renames"));
    };
    let [argument] = &args[..] else {
        return Err(Error::new("the component that renames takes more than one argument"));
    };
    let function = argument
        .index
        .checked_sub(1)
        .filter(|_| argument.kind == ComponentExternalKind::Func)
        .ok_or_else(|| Error::new("the component that renames does not take a function"))?;
    let mut instances = ComponentInstanceSection::new();
    instances.instantiate(0, [(argument.name, ComponentExportKind::Func, function)]);
    Ok(instances)
}

/// Two component instances were removed: the instantiated one, and the one that its export created.
fn moved_export(section: &[u8]) -> Result<ComponentExportSection> {
    let mut reader = ComponentExportSectionReader::new(BinaryReader::new(section, 0))?.into_iter();
    let (Some(Ok(export)), None) = (reader.next(), reader.next()) else {
        return Err(Error::new("expected one export"));
    };
    let instance = export
        .index
        .checked_sub(2)
        .filter(|_| export.kind == ComponentExternalKind::Instance && export.ty.is_none())
        .ok_or_else(|| Error::new("the last export is not that of an instance"))?;
    let mut exports = ComponentExportSection::new();
    exports.export(export.name, ComponentExportKind::Instance, instance, None);
    Ok(exports)
}
