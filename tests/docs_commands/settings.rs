//! Settings of clients.

use std::fs;

use serde_json::{Value, json};
use yaml_rust2::{Yaml, YamlLoader};

use super::cli::{Prompt, outcome};
use super::{documents, fences};

/// The command line of a server wherever settings hold one: `command` with `args`, or `command` alone as a list.
fn servers(settings: &Value, found: &mut Vec<Vec<String>>) {
    let words = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    if settings["command"] == "stockade" {
        found.push(words(&settings["args"]));
    } else if settings["command"][0] == "stockade" {
        found.push(words(&settings["command"]).split_off(1));
    } else if settings["cmd"] == "stockade" {
        found.push(words(&settings["args"]));
    }
    match settings {
        Value::Object(entries) => entries.values().for_each(|value| servers(value, found)),
        Value::Array(entries) => entries.iter().for_each(|value| servers(value, found)),
        _ => {}
    }
}

fn from_yaml(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Hash(entries) => {
            entries.iter().map(|(name, value)| (name.as_str().unwrap().to_owned(), from_yaml(value))).collect()
        }
        Yaml::Array(entries) => entries.iter().map(from_yaml).collect(),
        Yaml::Boolean(value) => json!(value),
        Yaml::Integer(value) => json!(value),
        other => json!(other.as_str().unwrap_or_else(|| panic!("{other:?}"))),
    }
}

/// Settings for clients, and the command lines that add them, start a server, which ends with its input.
#[test]
fn settings_in_documents_start_a_server() {
    let mut found = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for fence in fences(&text) {
            let named = format!("{}:{}", document.display(), fence.line);
            match fence.info.as_str() {
                "json" => {
                    let settings = serde_json::from_str(&fence.text).unwrap_or_else(|error| panic!("{named}: {error}"));
                    servers(&settings, &mut found);
                }
                "yaml" => {
                    let settings = YamlLoader::load_from_str(&fence.text).unwrap_or_else(|e| panic!("{named}: {e}"));
                    let settings: Vec<Value> = settings.iter().map(from_yaml).collect();
                    let before = found.len();
                    servers(&json!(settings), &mut found);
                    assert!(found.len() > before, "{named}: no server in {settings:?}");
                }
                "toml" => {
                    let settings: toml::Value =
                        toml::from_str(&fence.text).unwrap_or_else(|error| panic!("{named}: {error}"));
                    servers(&serde_json::to_value(settings).unwrap(), &mut found);
                }
                _ => {}
            }
        }
        let added =
            text.lines().filter(|line| line.starts_with("    ")).filter_map(|line| line.split_once("stockade mcp"));
        found.extend(added.map(|(_, rest)| {
            let options = rest.split_whitespace().filter(|word| *word != "--").map(str::to_owned);
            std::iter::once("mcp".to_owned()).chain(options).collect()
        }));
    }
    assert!(found.len() >= 14, "{found:?}");
    for prompt in Prompt::all() {
        for args in &found {
            let here = prompt.work();
            let args = args.iter().map(|arg| match arg.as_str() {
                "${workspaceFolder}" | "/srv/agent/workspace" => here.clone().into_os_string(),
                other => other.into(),
            });
            let (code, stdout, stderr) = outcome(prompt.command(prompt.program()).args(args));
            assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "", ""), "{found:?}");
        }
    }
}
