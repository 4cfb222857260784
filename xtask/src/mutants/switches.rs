//! Writes all mutants of a file into its text, each behind a switch.
//!
//! The mutant with number 7 of `a < b` becomes `(if active(7) { (a) > (b) } else { a < b })`. All
//! changes are insertions. An inserted copy of an operand contains no switches, so that the length
//! of the text grows with the nesting, and is not doubled by each level. `const` is removed from
//! functions, because a switch is not constant.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
};

use syn::{
    Arm, BinOp, Block, Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, Pat, Signature,
    spanned::Spanned,
    visit::{self, Visit},
};

use super::mutant::{Mutant, Place};
use crate::Result;

/// The text of a file with the switches of its mutants.
#[derive(Debug)]
pub(super) struct Switched {
    pub(super) text: String,

    /// The mutants that do not compile because of the syntax around them.
    pub(super) unviable: Vec<usize>,

    /// The mutants in constant expressions, which cannot contain a switch.
    pub(super) constant: Vec<usize>,

    /// The inserted text of each mutant.
    inserted: Vec<(Range<usize>, usize)>,

    /// The original code of each mutant with its insertions, from the inside outwards.
    wrapped: Vec<(Range<usize>, usize)>,
}

/// Collects the insertions while it visits the syntax of a file.
struct Collector<'a> {
    source: &'a str,
    wanted: HashMap<&'a Place, Vec<(usize, &'a Mutant)>>,
    keep_const: &'a BTreeSet<String>,
    insertions: Vec<Insertion>,
    unviable: Vec<usize>,
    blanks: Vec<Range<usize>>,
}

struct Insertion {
    at: usize,

    /// Insertions at the same position are ordered by this: ends before starts, the ends of inner
    /// expressions before those of outer ones, the starts of outer expressions before those of
    /// inner ones.
    order: isize,

    text: String,
    id: usize,
}

/// Writes the numbered `mutants` into `source`. Functions in `keep_const` remain `const`.
///
/// # Errors
///
/// If the source is not valid Rust.
pub(super) fn switch(
    source: &str,
    mutants: &[(usize, &Mutant)],
    keep_const: &BTreeSet<String>,
) -> Result<Switched> {
    let mut wanted = HashMap::<_, Vec<_>>::new();
    for (id, mutant) in mutants {
        wanted
            .entry(&mutant.place)
            .or_default()
            .push((*id, *mutant));
    }
    let mut collector = Collector {
        source,
        wanted,
        keep_const,
        insertions: Vec::new(),
        unviable: Vec::new(),
        blanks: Vec::new(),
    };
    collector.visit_file(&syn::parse_file(source)?);
    Ok(collector.finish())
}

// === impl Switched ===

impl Switched {
    /// The mutant in whose inserted text these bytes are.
    pub(super) fn inserting(&self, bytes: &Range<usize>) -> Option<usize> {
        first_around(&self.inserted, bytes)
    }

    /// The innermost mutant whose original or inserted code contains these bytes.
    pub(super) fn around(&self, bytes: &Range<usize>) -> Option<usize> {
        first_around(&self.wrapped, bytes)
    }
}

fn first_around(ranges: &[(Range<usize>, usize)], bytes: &Range<usize>) -> Option<usize> {
    let mut ranges = ranges.iter();
    let found = ranges.find(|(it, _)| it.start <= bytes.start && bytes.end <= it.end);
    found.map(|(_, id)| *id)
}

// === impl Collector ===

impl<'a> Collector<'a> {
    fn take(&mut self, genre: &str, at: proc_macro2::Span) -> Vec<(usize, &'a Mutant)> {
        let start = at.start();
        let place = Place {
            genre: genre.to_owned(),
            line: start.line,
            column: start.column + 1,
        };
        self.wanted.remove(&place).unwrap_or_default()
    }

    fn text(&self, node: &impl Spanned) -> &'a str {
        &self.source[node.span().byte_range()]
    }

    fn insert(&mut self, at: usize, text: String, id: usize) {
        let order = isize::try_from(self.insertions.len()).unwrap_or(isize::MAX);
        self.insertions.push(Insertion {
            at,
            order,
            text,
            id,
        });
    }

    fn wrap(&mut self, range: &Range<usize>, before: String, after: &str, id: usize) {
        self.insert(range.start, before, id);
        self.insert(range.end, after.to_owned(), id);
        if let Some(end) = self.insertions.last_mut() {
            end.order = -end.order;
        }
    }

    /// Makes the value of `node` depend on whether mutant `id` is active.
    fn choose(&mut self, node: &impl Spanned, mutated: &str, id: usize) {
        let before = format!("(if {} {{ {mutated} }} else {{ ", active(id));
        self.wrap(&node.span().byte_range(), before, " })", id);
    }

    /// Returns whether the body may contain switches.
    fn function(&mut self, signature: &Signature, block: &Block) -> bool {
        if let Some(constant) = &signature.constness {
            if self.keep_const.contains(&signature.ident.to_string()) {
                return false;
            }
            self.blanks.push(constant.span().byte_range());
        }
        if let [first, ..] = &*block.stmts {
            for (id, mutant) in self.take("FnValue", first.span()) {
                let switch = format!("if {} {{ return {}; }} ", active(id), mutant.replacement);
                let body = first.span().byte_range().start..block.span().byte_range().end;
                // Nothing at the end, but all of the body is code of this mutant: it does not compile
                // if its value is of another type than that of the body.
                self.wrap(&body, switch, "", id);
            }
        }
        true
    }

    /// `has_rest`: whether another arm takes all that this one takes.
    fn arm(&mut self, arm: &Arm, has_rest: bool) {
        for (id, _) in self.take("MatchArm", arm.span()) {
            if !has_rest {
                self.unviable.push(id);
                continue;
            }
            let end = arm.pat.span().byte_range().end;
            self.insert(end, format!(" if !{}", active(id)), id);
        }
        let Some((_, guard)) = &arm.guard else {
            return;
        };
        for (id, mutant) in self.take("MatchArmGuard", guard.span()) {
            self.choose(guard, &mutant.replacement, id);
        }
    }

    fn finish(mut self) -> Switched {
        let constant = self.wanted.into_values().flatten().map(|(id, _)| id);
        let constant = constant.collect();
        let mut source = self.source.to_owned();
        for blank in self.blanks {
            source.replace_range(blank.clone(), &" ".repeat(blank.len()));
        }
        self.insertions.sort_by_key(|it| (it.at, it.order));
        let mut text = String::new();
        let mut from = 0;
        let mut inserted = Vec::new();
        let mut starts = HashMap::new();
        let mut wrapped = Vec::new();
        for insertion in &self.insertions {
            text.push_str(&source[from..insertion.at]);
            from = insertion.at;
            let start = text.len();
            text.push_str(&insertion.text);
            inserted.push((start..text.len(), insertion.id));
            match starts.remove(&insertion.id) {
                Some(start) => wrapped.push((start..text.len(), insertion.id)),
                None => _ = starts.insert(insertion.id, start),
            }
        }
        text.push_str(&source[from..]);
        Switched {
            text,
            unviable: self.unviable,
            constant,
            inserted,
            wrapped,
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if self.function(&item.sig, &item.block) {
            visit::visit_block(self, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if self.function(&item.sig, &item.block) {
            visit::visit_block(self, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let Some(block) = &item.default else {
            return;
        };
        if self.function(&item.sig, block) {
            visit::visit_block(self, block);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        let (left, right) = (self.text(&binary.left), self.text(&binary.right));
        for (id, mutant) in self.take("BinaryOperator", binary.op.span()) {
            if is_let_chain(binary) {
                self.unviable.push(id);
                continue;
            }
            let mutated = format!("({left}) {} ({right})", mutant.replacement);
            self.choose(binary, &mutated, id);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        for (id, _) in self.take("UnaryOperator", unary.op.span()) {
            let mutated = format!("({})", self.text(&unary.expr));
            self.choose(unary, &mutated, id);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, expr: &'ast ExprMatch) {
        let takes_all = |arm: &Arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none();
        let has_rest = expr.arms.iter().any(takes_all);
        for arm in &expr.arms {
            self.arm(arm, has_rest);
        }
        visit::visit_expr_match(self, expr);
    }

    fn visit_expr_struct(&mut self, literal: &'ast ExprStruct) {
        if let Some(rest) = &literal.rest {
            let (name, rest_text) = (self.text(&literal.path), self.text(rest));
            for field in &literal.fields {
                for (id, _) in self.take("StructField", field.span()) {
                    let member = self.text(&field.member);
                    let mutated = if matches!(**rest, Expr::Path(_)) {
                        format!("{rest_text}.{member}")
                    } else {
                        format!("let rest: {name} = {rest_text}; rest.{member}")
                    };
                    if field.colon_token.is_some() {
                        self.choose(&field.expr, &mutated, id);
                    } else {
                        let before =
                            format!("{member}: (if {} {{ {mutated} }} else {{ ", active(id));
                        self.wrap(&field.span().byte_range(), before, " })", id);
                    }
                }
            }
        }
        visit::visit_expr_struct(self, literal);
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    // Constant expressions.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

/// The condition of the switch of mutant `id`.
fn active(id: usize) -> String {
    format!("::windlass_mutants::active({id})")
}

/// Whether a `let` is among the operands, which neither parentheses nor `||` may contain.
fn is_let_chain(binary: &ExprBinary) -> bool {
    let is_let = |expr: &Expr| match expr {
        Expr::Let(_) => true,
        Expr::Binary(inner) => is_let_chain(inner),
        _ => false,
    };
    matches!(binary.op, BinOp::And(_)) && (is_let(&binary.left) || is_let(&binary.right))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Mutant, Place, Switched, switch};

    /// Switches each change in `changes`: its kind, the code where it begins (the first occurrence),
    /// and the replacement. Their numbers are 0, 1, and so on.
    fn switched(source: &str, changes: &[(&str, &str, &str)]) -> Switched {
        let mutant = |(genre, at, replacement): &(&str, &str, &str)| {
            let before = &source[..source.find(at).expect("the code is there")];
            let column = before
                .lines()
                .next_back()
                .map_or(0, |it| it.chars().count())
                + 1;
            let place = Place {
                genre: (*genre).to_owned(),
                line: before.matches('\n').count() + 1,
                column,
            };
            Mutant {
                name: String::new(),
                package: String::new(),
                file: String::new(),
                place,
                replacement: (*replacement).to_owned(),
            }
        };
        let mutants: Vec<_> = changes.iter().map(mutant).collect();
        let numbered: Vec<_> = mutants.iter().enumerate().collect();
        switch(source, &numbered, &BTreeSet::new()).expect("it is Rust")
    }

    #[track_caller]
    fn check(source: &str, changes: &[(&str, &str, &str)], expected: &str) {
        let text = switched(source, changes).text;
        assert_eq!(text.replace("::windlass_mutants::active", "is"), expected);
    }

    #[test]
    fn a_function_returns_the_value_first() {
        check(
            "const fn f() -> u8 { g() }",
            &[("FnValue", "g()", "0"), ("FnValue", "g()", "1")],
            "      fn f() -> u8 { if is(0) { return 0; } if is(1) { return 1; } g() }",
        );
        check(
            "trait T { async fn f(&self) { g().await } }",
            &[("FnValue", "g()", "()")],
            "trait T { async fn f(&self) { if is(0) { return (); } g().await } }",
        );
    }

    #[test]
    fn operators_are_replaced_in_a_copy_without_switches() {
        check(
            "fn f() { é == a && b < c; }",
            &[
                ("BinaryOperator", "&&", "||"),
                ("BinaryOperator", "<", ">"),
                ("BinaryOperator", "<", "<="),
            ],
            "fn f() { (if is(0) { (é == a) || (b < c) } else { é == a && \
             (if is(1) { (b) > (c) } else { (if is(2) { (b) <= (c) } else { b < c }) }) }); }",
        );
        check(
            "fn f() { a += 1; }",
            &[("BinaryOperator", "+=", "-=")],
            "fn f() { (if is(0) { (a) -= (1) } else { a += 1 }); }",
        );
        check(
            "fn f() { !a.b(-1) }",
            &[("UnaryOperator", "!", ""), ("UnaryOperator", "-1", "")],
            "fn f() { (if is(0) { (a.b(-1)) } else { !a.b((if is(1) { (1) } else { -1 })) }) }",
        );
    }

    #[test]
    fn an_arm_is_deleted_by_a_guard() {
        check(
            "fn f() { match a { 1 | 2 => b, 3 if c => d, _ => e } }",
            &[
                ("MatchArm", "1 |", ""),
                ("MatchArmGuard", "c =>", "true"),
                ("MatchArmGuard", "c =>", "false"),
            ],
            "fn f() { match a { 1 | 2 if !is(0) => b, 3 if (if is(1) { true } else { \
             (if is(2) { false } else { c }) }) => d, _ => e } }",
        );
    }

    #[test]
    fn a_field_takes_the_value_of_the_base() {
        check(
            "fn f() { S { a: 1, ..self }; S { b, ..S::d() } }",
            &[("StructField", "a:", ""), ("StructField", "b,", "")],
            "fn f() { S { a: (if is(0) { self.a } else { 1 }), ..self }; \
             S { b: (if is(1) { let rest: S = S::d(); rest.b } else { b }), ..S::d() } }",
        );
    }

    #[test]
    fn mutants_without_a_switch_are_named() {
        let source = "const A: u8 = 1 + 2;\n\
                      fn f() { if let x = y && z {} match a { 1 => b, _ if c => d } }";
        let changes = [
            ("BinaryOperator", "+", "-"),
            ("BinaryOperator", "&&", "||"),
            ("MatchArm", "1 =>", ""),
        ];
        let switched = switched(source, &changes);
        assert_eq!(switched.text, source);
        assert_eq!(
            (switched.constant, switched.unviable),
            (vec![0], vec![1, 2])
        );
    }

    #[test]
    fn an_error_is_due_to_the_inserted_text_or_to_the_innermost_switch_around_it() {
        let source = "fn f() -> u8 { a * (b + c) }";
        let switched = switched(
            source,
            &[
                ("FnValue", "a *", "0"),
                ("BinaryOperator", "*", "/"),
                ("BinaryOperator", "+", "-"),
            ],
        );
        let bytes = |text: &str| {
            let start = switched.text.rfind(text).expect("it is there");
            start..start + text.len()
        };
        assert_eq!(switched.inserting(&bytes("return 0")), Some(0));
        assert_eq!(switched.inserting(&bytes("/ ((b + c))")), Some(1));
        assert_eq!(switched.inserting(&bytes("b + c })")), None);
        assert_eq!(switched.around(&bytes("b + c")), Some(2));
        assert_eq!(switched.around(&bytes("a * (")), Some(1));
        assert_eq!(switched.around(&bytes("fn f")), None);
    }
}
