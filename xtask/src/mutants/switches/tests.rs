//! The text with switches of small sources.

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
