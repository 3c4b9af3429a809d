//! The JSON Schemas of what is written: made from the types, kept as files for others.

use schemars::{JsonSchema, generate::SchemaSettings};

use super::{CheckRecord, IntervalRecord, Record};
use crate::model::Report;

/// Compares a type's schema with its file, or writes it with `UPDATE=1`.
fn check<T: JsonSchema>(name: &str) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let text = serde_json::to_string_pretty(&schema).expect("plain data") + "\n";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("schema")
        .join(format!("{name}.schema.json"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("writes the schema");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == kept,
        "the schema of {name} differs; UPDATE=1 writes it"
    );
}

#[test]
fn each_document_has_its_schema() {
    check::<Record>(Record::SCHEMA);
    check::<IntervalRecord>(IntervalRecord::SCHEMA);
    check::<CheckRecord>(CheckRecord::SCHEMA);
    check::<Report>(Report::SCHEMA);
}
