//! `docs/images-of-jobs.md`: the table of an image's configuration names each field there is, and says of each whether it has
//! an effect, which a pull shows.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use vk_oci::ImageConfig;

use super::*;

/// `fields.json`; it says where the fields are from.
#[derive(Deserialize)]
struct Fields {
    fields: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    field: String,
    value: Value,
}

/// The table's rows: the field, and whether it has an effect.
fn table(page: &str) -> BTreeMap<String, bool> {
    let row =
        regex::Regex::new(r"(?m)^\| `([^`]+)` \| (honoured|no effect) \| [^|]{10,} \|$").unwrap();
    row.captures_iter(page)
        .map(|row| (row[1].to_owned(), &row[2] == "honoured"))
        .collect()
}

/// The blob with `field` set to `value`.
fn changed(mut blob: Value, field: &str, value: &Value) -> Value {
    if let Some(of_history) = field.strip_prefix("history[].") {
        blob["history"] = json!([{of_history: value}]);
    } else if let Some((object @ ("config" | "rootfs"), inner)) = field.split_once('.') {
        blob[object][inner] = value.clone();
    } else {
        blob[field] = value.clone();
    }
    blob
}

/// What a pull of an image with the configuration `blob` comes to; `None` for an error.
async fn outcome(registry: &Registry, blob: &Value) -> Option<(ImageConfig, String)> {
    let kind = "application/vnd.oci.image.config.v1+json";
    let manifest = json!({
        "schemaVersion": 2,
        "config": image_maker::push_blob(registry, "a:1", kind, blob.to_string().into_bytes()),
        "layers": [],
    });
    let kind = "application/vnd.oci.image.manifest.v1+json";
    image_maker::push_manifest(registry, "a:1", kind, &manifest);
    let image = Host::new().pull(&registry.image("a:1")).await.ok()?;
    Some((image.config().clone(), image.platform().to_owned()))
}

#[tokio::test]
async fn each_field_of_a_configuration_has_the_effect_that_the_page_says() {
    let fields: Fields = serde_json::from_str(include_str!("fields.json")).unwrap();
    let page = vk_tests::vk::workspace().join("docs/images-of-jobs.md");
    let table = table(&std::fs::read_to_string(page).unwrap());
    let registry = Registry::start();
    let plain: Value = serde_json::from_slice(&Image::new().config_blob()).unwrap();
    let usual = outcome(&registry, &plain).await;
    assert!(usual.is_some());

    let known: BTreeSet<_> = fields
        .fields
        .iter()
        .map(|field| field.field.clone())
        .collect();
    assert_eq!(table.keys().cloned().collect::<BTreeSet<_>>(), known);
    for Field { field, value } in &fields.fields {
        let blob = changed(plain.clone(), field, value);
        assert_ne!(blob, plain, "{field}");
        let has_effect = outcome(&registry, &blob).await != usual;
        assert_eq!(has_effect, table[field], "{field}");
        if has_effect {
            let null = outcome(&registry, &changed(plain.clone(), field, &Value::Null)).await;
            assert!(null.is_some(), "{field}: null is the same as nothing");
        }
    }
}
