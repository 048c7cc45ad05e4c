//! Which file of a crate imports which: imports in a domain go down its floors, and no files import
//! each other in a circle.
//!
//! A path is followed through re-exports to the file that defines the item. A parent that declares or
//! re-exports a child does not import it. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{Attribute, File, Item, ItemUse, Path, UseTree, Visibility};

use super::sources::Source;

type Module = Vec<String>;

/// Floors of a domain, from the top. Other modules are the model, which is the lowest.
const FLOORS: [(&str, usize); 11] = [
    ("rehearsal", 0),
    ("decide", 1),
    ("commands", 2),
    ("rules", 3),
    ("decision", 4),
    ("lookup", 4),
    ("input", 4),
    ("effect", 4),
    ("refusal", 4),
    ("transition", 4),
    ("need", 4),
];
const LOWEST: usize = 5;

/// Maximum number of re-exports that one path is followed through.
const HOPS_MAX: usize = 8;

/// The files of one crate, by module.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Module, Parsed>,
}

#[derive(Default)]
struct Parsed {
    path: String,
    /// Paths of imports and of expressions, each from the root of the crate.
    used: BTreeSet<Module>,
    /// Names that are re-exported, and where they come from.
    exports: BTreeMap<String, Module>,
    /// Modules that exist only in tests.
    tests: BTreeSet<Module>,
}

/// Imports that go up the floors of a domain, and circles of files.
pub(crate) struct Findings {
    pub(crate) upward: Vec<String>,
    pub(crate) circles: Vec<String>,
}

pub(crate) fn check(sources: &[Source]) -> Findings {
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    for source in sources {
        if let Some((root, module)) = place(source.path()) {
            let parsed = parse(source, &module);
            let files = &mut crates.entry(root).or_default().modules;
            files.entry(module).or_default().merge(parsed);
        }
    }
    let (mut upward, mut circles) = (Vec::new(), Vec::new());
    for files in crates.values_mut() {
        files.leave_out_tests();
        let edges = files.edges();
        upward.extend(files.upward(&edges));
        circles.extend(files.circles(&edges));
    }
    Findings { upward, circles }
}

/// Folder of the crate, and the module of a file. `None`: a test, or not a source of a crate.
fn place(path: &str) -> Option<(String, Module)> {
    let (root, inner) = path.split_once("/src/")?;
    let inner = inner.strip_suffix(".rs")?;
    let mut module: Module = inner.split('/').map(str::to_owned).collect();
    if module
        .iter()
        .any(|part| matches!(part.as_str(), "tests" | "testing"))
    {
        return None;
    }
    if matches!(inner, "lib" | "main") {
        module.clear();
    }
    Some((root.to_owned(), module))
}

fn parse(source: &Source, module: &Module) -> Parsed {
    let mut visitor = Visitor {
        module: module.clone(),
        parsed: Parsed {
            path: source.path().to_owned(),
            ..Parsed::default()
        },
        children: BTreeSet::new(),
    };
    if let Ok(file) = syn::parse_file(source.text()) {
        visitor.declared(&file);
        visitor.visit_file(&file);
    }
    visitor.parsed
}

impl Parsed {
    fn merge(&mut self, other: Self) {
        if self.path.is_empty() {
            self.path = other.path;
        }
        self.used.extend(other.used);
        self.exports.extend(other.exports);
        self.tests.extend(other.tests);
    }
}

struct Visitor {
    module: Module,
    parsed: Parsed,
    children: BTreeSet<String>,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

impl Visitor {
    fn declared(&mut self, file: &File) {
        for item in &file.items {
            if let Item::Mod(child) = item
                && child.content.is_none()
            {
                let name = child.ident.to_string();
                if is_test(&child.attrs) {
                    let module = [self.module.as_slice(), std::slice::from_ref(&name)].concat();
                    self.parsed.tests.insert(module);
                }
                self.children.insert(name);
            }
        }
    }

    /// The path from the root of the crate. `None`: a path of another crate.
    fn absolute(&self, path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([&self.module, rest].concat()),
            "super" => {
                let mut base = self.module.clone();
                let mut rest = path;
                while let Some((first, tail)) = rest.split_first()
                    && first == "super"
                {
                    base.pop()?;
                    rest = tail;
                }
                base.extend_from_slice(rest);
                Some(base)
            }
            child if self.children.contains(child) => Some([&self.module, path].concat()),
            _ => None,
        }
    }

    fn tree(&mut self, tree: &UseTree, before: &mut Module, is_export: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(&path.tree, before, is_export);
                before.pop();
            }
            UseTree::Group(group) => {
                for one in &group.items {
                    self.tree(one, before, is_export);
                }
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.import(before, &name.clone(), name, is_export);
            }
            UseTree::Rename(rename) => {
                let (name, alias) = (rename.ident.to_string(), rename.rename.to_string());
                self.import(before, &name, alias, is_export);
            }
            UseTree::Glob(_) => {
                if let Some(path) = self.absolute(before) {
                    self.parsed.used.insert(path);
                }
            }
        }
    }

    fn import(&mut self, before: &[String], name: &str, alias: String, is_export: bool) {
        let mut path = before.to_vec();
        // `use part::{self, Name}` imports the module.
        if name != "self" {
            path.push(name.to_owned());
        }
        let Some(path) = self.absolute(&path) else {
            return;
        };
        let is_child = path.starts_with(&self.module) && path.len() > self.module.len();
        if is_export {
            self.parsed.exports.insert(alias, path.clone());
        }
        if !(is_export && is_child) {
            self.parsed.used.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Visitor {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other kinds of items are never for tests alone, and syn may add some"
    )]
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(it) => &it.attrs,
            Item::Use(it) => &it.attrs,
            Item::Fn(it) => &it.attrs,
            Item::Impl(it) => &it.attrs,
            Item::Struct(it) => &it.attrs,
            Item::Const(it) => &it.attrs,
            _ => &Vec::new(),
        };
        if !is_test(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_export = !matches!(item.vis, Visibility::Inherited);
        self.tree(&item.tree, &mut Module::new(), is_export);
    }

    /// `pub(in crate::domain)` imports nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast Path) {
        let segments: Module = path
            .segments
            .iter()
            .map(|it| it.ident.to_string())
            .collect();
        if segments.len() > 1
            && let Some(absolute) = self.absolute(&segments)
        {
            self.parsed.used.insert(absolute);
        }
        syn::visit::visit_path(self, path);
    }
}

impl Crate {
    fn leave_out_tests(&mut self) {
        let tests: Vec<Module> = self
            .modules
            .values()
            .flat_map(|parsed| parsed.tests.iter().cloned())
            .collect();
        self.modules
            .retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    }

    /// The module that defines the item of a path.
    fn resolve(&self, path: &[String], hops: usize) -> Module {
        let mut module = Module::new();
        for (at, name) in path.iter().enumerate() {
            let mut child = module.clone();
            child.push(name.clone());
            if self.modules.contains_key(&child) {
                module = child;
                continue;
            }
            let exported = self
                .modules
                .get(&module)
                .and_then(|parsed| parsed.exports.get(name));
            if let Some(target) = exported
                && hops < HOPS_MAX
            {
                let rest = path.get(at + 1..).unwrap_or_default();
                return self.resolve(&[target, rest].concat(), hops + 1);
            }
            break;
        }
        module
    }

    fn edges(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        self.modules
            .iter()
            .map(|(module, parsed)| {
                let targets = parsed.used.iter().map(|path| self.resolve(path, 0));
                (module, targets.filter(|target| target != module).collect())
            })
            .collect()
    }

    fn shown(&self, module: &Module) -> &str {
        self.modules
            .get(module)
            .map_or("?", |parsed| parsed.path.as_str())
    }

    fn upward(&self, edges: &BTreeMap<&Module, BTreeSet<Module>>) -> Vec<String> {
        let mut found = Vec::new();
        for (from, targets) in edges {
            let Some(high) = floor(from) else { continue };
            for to in targets {
                if floor(to).is_some_and(|floor| floor < high) {
                    found.push(format!(
                        "{}: imports {}, which is on a higher floor",
                        self.shown(from),
                        self.shown(to)
                    ));
                }
            }
        }
        found
    }

    /// Sets of files that reach each other.
    fn circles(&self, edges: &BTreeMap<&Module, BTreeSet<Module>>) -> Vec<String> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = edges
            .keys()
            .map(|from| (*from, reach(edges, from)))
            .collect();
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for (from, targets) in &reached {
            if !targets.contains(from) || seen.contains(from) {
                continue;
            }
            let both = |to: &&&Module| reached.get(**to).is_some_and(|back| back.contains(from));
            let circle: Vec<&Module> = targets.iter().filter(both).copied().collect();
            seen.extend(circle.iter().copied());
            let names: Vec<_> = circle.iter().map(|module| self.shown(module)).collect();
            found.push(format!(
                "circle of {} files: {}",
                names.len(),
                names.join(", ")
            ));
        }
        found
    }
}

fn reach<'m>(
    edges: &'m BTreeMap<&Module, BTreeSet<Module>>,
    from: &Module,
) -> BTreeSet<&'m Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = edges.get(from).into_iter().flatten().collect();
    while let Some(one) = next.pop() {
        if reached.insert(one) {
            next.extend(edges.get(one).into_iter().flatten());
        }
    }
    reached
}

/// The floor of a module of a domain; 0 is the domain's own file.
fn floor(module: &[String]) -> Option<usize> {
    let (first, rest) = module.split_first()?;
    if first != "domain" {
        return None;
    }
    let Some(name) = rest.first() else {
        return Some(0);
    };
    let known = FLOORS.iter().find(|(floor, _)| floor == name);
    Some(known.map_or(LOWEST, |(_, floor)| *floor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files
            .iter()
            .map(|(path, text)| Source::new(path, text))
            .collect();
        let Findings { upward, circles } = check(&sources);
        [upward, circles].concat()
    }

    #[test]
    fn a_circle_is_found_through_a_re_export() {
        let files = [
            ("a/src/lib.rs", "mod one; mod two; pub use two::Two;"),
            ("a/src/one.rs", "use crate::Two;"),
            ("a/src/two.rs", "fn f() { crate::one::g() }"),
        ];
        assert_eq!(
            found(&files),
            ["circle of 2 files: a/src/one.rs, a/src/two.rs"]
        );
    }

    #[test]
    fn a_parent_that_declares_a_child_is_not_a_circle_and_tests_do_not_count() {
        let files = [
            ("a/src/lib.rs", "mod one; pub use one::One; pub struct Two;"),
            (
                "a/src/one.rs",
                "use super::Two; #[cfg(test)] mod tests { use crate::two::X; }",
            ),
            ("a/src/two.rs", "use crate::one::One;"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_rule_imports_no_command() {
        let files = [
            ("s/src/domain.rs", "mod commands; mod rules;"),
            ("s/src/domain/commands.rs", "pub(crate) mod pause_run;"),
            (
                "s/src/domain/commands/pause_run.rs",
                "use crate::domain::rules::quorum::f;",
            ),
            (
                "s/src/domain/rules/quorum.rs",
                "use super::super::commands::pause_run::g;",
            ),
        ];
        let rule = "s/src/domain/rules/quorum.rs: imports s/src/domain/commands/pause_run.rs, which is on a higher floor";
        assert!(found(&files).contains(&rule.to_owned()));
    }
}
