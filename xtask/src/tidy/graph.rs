//! The arrows between the files of a crate, read from the tokens of its sources.
//!
//! A path stands for the file that defines the item, however many modules export it again. Names
//! that a file only exports are no use of it, and neither are those in tests. Calls of methods
//! have no path, and make no arrow. Neither does a module's use of those that it is part of.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::Result;

/// Exports of exports that are followed.
const EXPORTS_MAX: usize = 8;

/// A path of modules and an item, from the root of its crate.
type ItemPath = Vec<String>;

/// A file, as a module.
#[derive(Debug, Default)]
struct Module {
    /// Names that other paths stand for, in this file.
    imports: HashMap<String, ItemPath>,
    /// Paths in the code, beside those that are only exported.
    uses: BTreeSet<ItemPath>,
}

/// The files of a crate, and which of them each uses.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// By the path of the module.
    modules: BTreeMap<ItemPath, Module>,
}

impl Graph {
    /// Adds the file at `path`, which is below the crate's `src`.
    pub(super) fn add(&mut self, path: &Path, text: &str) -> Result<()> {
        let module = module_of(path);
        let tokens: TokenStream = text.parse().map_err(|e| format!("{}: {e}", path.display()))?;
        let mut found = Module::default();
        found.read(tokens);
        self.modules.insert(module, found);
        Ok(())
    }

    /// The modules that each module uses, beside itself and those that it is part of.
    pub(super) fn arrows(&self) -> BTreeMap<String, BTreeSet<String>> {
        let of = |(at, module): (&ItemPath, &Module)| {
            let used = module.uses.iter().filter_map(|path| self.definer(at, path));
            (
                at.join("::"),
                used.filter(|used| !at.starts_with(used)).map(|used| used.join("::")).collect(),
            )
        };
        self.modules.iter().map(of).collect()
    }

    /// The circles of arrows, each with all of its modules.
    pub(super) fn circles(&self) -> BTreeSet<BTreeSet<String>> {
        let arrows = self.arrows();
        let reached = |from: &String| {
            let mut reached = BTreeSet::new();
            let mut ahead = vec![from];
            while let Some(at) = ahead.pop() {
                let further = arrows.get(at).into_iter().flatten();
                ahead.extend(further.filter(|to| reached.insert((*to).clone())));
            }
            reached
        };
        let reached: BTreeMap<&String, _> = arrows.keys().map(|at| (at, reached(at))).collect();
        let circle = |(at, reaches): (&&String, &BTreeSet<String>)| {
            let returns = |to: &&String| reached.get(to).is_some_and(|back| back.contains(*at));
            reaches.iter().filter(returns).cloned().collect::<BTreeSet<_>>()
        };
        reached.iter().map(circle).filter(|circle| !circle.is_empty()).collect()
    }

    /// The module that defines what `path` names in the module `at`.
    fn definer(&self, at: &ItemPath, path: &ItemPath) -> Option<ItemPath> {
        let imported = self.modules[at].imports.values().any(|import| import == path);
        let mut path = self.absolute(at, path)?;
        for _ in 0..EXPORTS_MAX {
            let is_module = |len: &usize| self.modules.contains_key(&path[..*len]);
            let len = (0..=path.len()).rev().find(is_module)?;
            let (module, rest) = path.split_at(len);
            let Some((name, rest)) = rest.split_first() else {
                // A module is imported. Elsewhere, a function has the same name.
                return imported.then_some(path);
            };
            let Some(further) = self.modules[module].imports.get(name) else {
                return Some(module.to_vec());
            };
            let mut next = self.absolute(&module.to_vec(), further)?;
            next.extend_from_slice(rest);
            path = next;
        }
        None
    }

    /// `path` from the root of the crate, or nothing if it leaves the crate.
    fn absolute(&self, at: &ItemPath, path: &ItemPath) -> Option<ItemPath> {
        let (first, rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => at.clone(),
            "super" => at[..at.len().checked_sub(1)?].to_vec(),
            name => {
                let mut child = at.clone();
                child.push(name.to_owned());
                if self.modules.contains_key(&child) {
                    child
                } else {
                    let import = self.modules.get(at)?.imports.get(name)?;
                    // An import of the same name, from another crate.
                    let is_outside = import.first().is_some_and(|first| first == name);
                    (!is_outside).then(|| self.absolute(at, import))??
                }
            }
        };
        for name in rest {
            match name.as_str() {
                "super" => drop(base.pop()?),
                "self" => {}
                name => base.push(name.to_owned()),
            }
        }
        Some(base)
    }
}

/// The module in the file at `path`.
fn module_of(path: &Path) -> ItemPath {
    let path = path.with_extension("");
    let mut names: ItemPath = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
        names.pop();
    }
    names
}

impl Module {
    /// Reads imports and paths of `tokens`, and of all groups in them.
    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        while let [first, after @ ..] = rest {
            let visibility = visibility_len(rest);
            rest = if is_test_attribute(rest) {
                after_item(after)
            } else if rest.get(visibility).is_some_and(|token| is_ident(token, "use")) {
                let mut imports = Vec::new();
                let after = read_imports(&rest[visibility + 1..], &[], &mut imports);
                if visibility == 0 {
                    self.uses.extend(imports.iter().map(|(_, path)| path.clone()));
                }
                self.imports.extend(imports);
                after
            } else if visibility > 0 {
                &rest[visibility..]
            } else {
                match first {
                    TokenTree::Group(group) => self.read(group.stream()),
                    TokenTree::Ident(_) => {
                        let (path, after) = read_path(rest);
                        self.uses.insert(path);
                        rest = after;
                        continue;
                    }
                    _ => {}
                }
                after
            };
        }
    }
}

/// Reads the tree of a `use` behind `prefix`, and returns the tokens behind it.
fn read_imports<'a>(
    tokens: &'a [TokenTree],
    prefix: &[String],
    imports: &mut Vec<(String, ItemPath)>,
) -> &'a [TokenTree] {
    let (names, mut rest) = read_path(tokens);
    let mut path = [prefix, &names].concat();
    let is_colons = |rest: &[TokenTree]| rest.len() > 2 && is_punct(&rest[0], ':');
    if is_colons(rest) {
        rest = &rest[2..];
    }
    match rest {
        [TokenTree::Group(group), after @ ..] => {
            let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
            for branch in tokens.split(|token| is_punct(token, ',')) {
                read_imports(branch, &path, imports);
            }
            after
        }
        [star, after @ ..] if is_punct(star, '*') => {
            path.push("*".to_owned());
            imports.push(("*".to_owned(), path));
            after
        }
        [word, name, after @ ..] if is_ident(word, "as") => {
            imports.push((name.to_string(), path));
            after
        }
        _ => {
            let is_itself = path.last().is_some_and(|name| name == "self");
            if is_itself && path.len() > 1 {
                path.pop();
            }
            imports.extend(path.last().cloned().map(|name| (name, path)));
            rest
        }
    }
}

/// The names at the beginning of `tokens` with `::` between them, and the tokens behind them.
fn read_path(tokens: &[TokenTree]) -> (ItemPath, &[TokenTree]) {
    let mut path = Vec::new();
    let mut rest = tokens;
    while let [TokenTree::Ident(name), after @ ..] = rest {
        path.push(name.to_string());
        rest = after;
        match after {
            [a, b, further @ ..] if is_punct(a, ':') && is_punct(b, ':') => {
                if !matches!(further.first(), Some(TokenTree::Ident(_))) {
                    break;
                }
                rest = further;
            }
            _ => break,
        }
    }
    (path, rest)
}

/// The tokens of `pub` or `pub(...)` at the beginning.
fn visibility_len(tokens: &[TokenTree]) -> usize {
    let is_scope = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis);
    match tokens {
        [word, scope, ..] if is_ident(word, "pub") && is_scope(scope) => 2,
        [word, ..] if is_ident(word, "pub") => 1,
        _ => 0,
    }
}

/// True before `#[cfg(test)]`.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let is_cfg = |token: &TokenTree| token.to_string().replace(' ', "") == "[cfg(test)]";
    matches!(tokens, [mark, cfg, ..] if is_punct(mark, '#') && is_cfg(cfg))
}

/// The tokens behind the item that begins here: behind its braces, or its semicolon.
fn after_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let ends = |token: &TokenTree| {
        let is_body =
            matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        is_body || is_punct(token, ';')
    };
    let len = tokens.iter().position(ends).map_or(tokens.len(), |at| at + 1);
    &tokens[len..]
}

fn is_ident(token: &TokenTree, text: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == text)
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arrows of a crate with these files.
    fn arrows(files: &[(&str, &str)]) -> BTreeMap<String, BTreeSet<String>> {
        graph(files).arrows()
    }

    fn graph(files: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        for (path, text) in files {
            graph.add(Path::new(path), text).expect("tokens");
        }
        graph
    }

    fn used(user: &str, text: &str) -> Vec<String> {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use b::c::{Deep, deep as renamed};\n"),
            ("a.rs", "pub struct A;\n"),
            ("b/mod.rs", "pub mod c;\npub(crate) use c::*;\nuse crate::a::A;\npub struct B(A);\n"),
            ("b/c.rs", "pub struct Deep;\npub fn deep() {}\n"),
            (user, text),
        ];
        arrows(&files)[&module_of(Path::new(user)).join("::")].iter().cloned().collect()
    }

    #[test]
    fn a_path_leads_to_the_file_that_defines_the_item() {
        for (text, expected) in [
            ("use crate::a::A;", vec!["a"]),
            ("use super::a::A;", vec!["a"]),
            ("use crate::{a::A, b::{B, c::Deep}};", vec!["a", "b", "b::c"]),
            ("fn f() { crate::a::A.g() }", vec!["a"]),
            ("use crate::a; fn f() { a::A.g() }", vec!["a"]),
            ("fn f() { crate::a() }", vec![]),
            ("use crate::b; fn f(b: b::B) { b::c::deep() }", vec!["b", "b::c"]),
            ("fn f() { vec![matches!(x, crate::a::A)] }", vec!["a"]),
            // Through exports.
            ("use crate::Deep;", vec!["b::c"]),
            ("use crate::renamed as other; fn f() { other() }", vec!["b::c"]),
            // An export is no use.
            ("pub use crate::a::A;", vec![]),
            ("pub(crate) use crate::a::A;", vec![]),
            // Neither are other crates, texts, comments and tests.
            ("use std::a::A; /* crate::a::A */ const X: &str = \"crate::a::A\";", vec![]),
            ("#[cfg(test)] use crate::a::A; #[cfg(test)] mod tests { use crate::a::A; }", vec![]),
        ] {
            assert_eq!(used("user.rs", text), expected, "{text}");
        }
    }

    #[test]
    fn a_module_may_use_those_that_it_is_part_of() {
        assert!(used("b/d.rs", "use super::B;\nuse crate::b::B;\n").is_empty());
        assert_eq!(used("b/d.rs", "use super::c::Deep;\n"), ["b::c"]);
    }

    #[test]
    fn circles_are_found_with_all_their_files() {
        let files = [
            ("a.rs", "use crate::b::B;\npub struct A;\n"),
            ("b.rs", "use crate::c::C;\npub struct B;\n"),
            ("c.rs", "use crate::a::A;\npub struct C;\n"),
            ("d.rs", "use crate::a::A;\n"),
        ];
        let circle = BTreeSet::from(["a", "b", "c"].map(str::to_owned));
        assert_eq!(graph(&files).circles(), BTreeSet::from([circle]));
        assert!(graph(&files[1..]).circles().is_empty());
    }
}
