//! Instructions against goldens made by numpy and ml_dtypes (`testdata/goldens/make_goldens.py`).

#[path = "support/golden.rs"]
mod golden;

use golden::run_family;

#[test]
fn casts_between_every_pair_of_dtypes() {
    run_family("casts");
}

#[test]
fn alu_operations() {
    run_family("alu");
}

#[test]
fn tensor_scalar_forms() {
    run_family("scalar");
}

#[test]
fn reductions() {
    run_family("reduce");
}

#[test]
fn activations() {
    run_family("activation");
}

#[test]
fn matrix_products() {
    run_family("matmul");
}

#[test]
fn selections_and_fills() {
    run_family("select");
}

#[test]
fn search_and_batch_norm() {
    run_family("search");
}

#[test]
fn movement() {
    run_family("movement");
}

#[test]
fn random_numbers() {
    run_family("rng");
}
