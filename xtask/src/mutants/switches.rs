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

#[cfg(test)]
mod tests;

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
