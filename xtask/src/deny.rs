//! Licences, banned crates and sources of everything that is built, read from `.deny.toml` over `cargo metadata`.
//!
//! A part of what cargo-deny does, so that a machine without it, and without a network, still checks. Advisories are
//! not looked up here; that every ignored one has a reason is.

use crate::command::{self, Workspace};
use crate::spdx::{Expression, Licence};
use serde::Deserialize;

/// The parts of `.deny.toml` that are held here.
#[derive(Debug, Deserialize)]
pub struct Policy {
    licenses: Licenses,
    bans: Bans,
    #[serde(default)]
    advisories: Advisories,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
struct Advisories {
    #[serde(default)]
    ignore: Vec<Ignored>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ignored {
    id: String,
    reason: String,
}

/// What `cargo metadata` says about every package.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

/// Checks the workspace as it is locked.
pub fn run(workspace: &Workspace) -> Result<(), String> {
    let policy = parse(&command::read(&workspace.root.join(".deny.toml"))?)?;
    let mut ask = workspace.cargo([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--all-features",
    ]);
    let metadata: Metadata = serde_json::from_str(&command::capture(&mut ask)?)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let findings = check(&policy, &metadata)?;
    for finding in &findings {
        eprintln!("   {finding}");
    }
    match findings.len() {
        0 => {
            println!("   {} packages", metadata.packages.len());
            Ok(())
        }
        count => Err(format!(
            "{count} findings; change the dependency, or .deny.toml with a reason"
        )),
    }
}

/// Reads a policy; the error has the line.
pub fn parse(text: &str) -> Result<Policy, String> {
    toml::from_str(text).map_err(|error| format!(".deny.toml: {error}"))
}

/// Lists what the policy forbids, in the order of the packages. Fails where the policy itself is broken.
pub fn check(policy: &Policy, metadata: &Metadata) -> Result<Vec<String>, String> {
    let allow = policy
        .licenses
        .allow
        .iter()
        .map(|text| Licence::parse(text))
        .collect::<Result<Vec<_>, _>>()?;
    let mut findings = Vec::new();
    for Ignored { id, reason } in &policy.advisories.ignore {
        if reason.trim().is_empty() {
            findings.push(format!(".deny.toml ignores {id} without a reason"));
        }
    }
    for Package {
        name,
        version,
        license,
        source,
    } in &metadata.packages
    {
        match license.as_deref().map(Expression::parse) {
            None => findings.push(format!("{name} {version} names no licence")),
            Some(Err(error)) => findings.push(format!(
                "{name} {version}: cannot read its licence: {error}"
            )),
            Some(Ok(expression)) if !expression.allowed(&allow) => findings.push(format!(
                "{name} {version}: licence `{}` is not allowed",
                license.as_deref().unwrap_or_default()
            )),
            Some(Ok(_)) => {}
        }
        if let Some(ban) = policy.bans.deny.iter().find(|ban| ban.name == *name) {
            findings.push(format!("{name} {version} is banned: {}", ban.reason));
        }
        if source
            .as_deref()
            .is_some_and(|source| !is_default_registry(source))
        {
            findings.push(format!(
                "{name} {version} comes from {}, not from the default registry",
                source.as_deref().unwrap_or_default()
            ));
        }
    }
    Ok(findings)
}

/// Cargo names its default registry by the address of the old index, whichever protocol is used.
fn is_default_registry(source: &str) -> bool {
    source == "registry+https://github.com/rust-lang/crates.io-index"
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        [bans]
        deny = [{ crate = "openssl-sys", reason = "one TLS stack" }]
        [advisories]
        ignore = [{ id = "RUSTSEC-2025-0057", reason = "comes with sled" }]
    "#;

    fn found(package: &str) -> Vec<String> {
        let metadata = format!(r#"{{"packages":[{package}]}}"#);
        check(
            &parse(POLICY).unwrap(),
            &serde_json::from_str(&metadata).unwrap(),
        )
        .unwrap()
    }

    #[test]
    fn an_allowed_crate_from_the_default_registry_passes() {
        let source = "registry+https://github.com/rust-lang/crates.io-index";
        let package = format!(
            r#"{{"name":"a","version":"1.0.0","license":"MIT OR GPL-2.0-only","source":"{source}"}}"#
        );
        assert_eq!(found(&package), Vec::<String>::new());
        assert_eq!(
            found(r#"{"name":"own","version":"0.1.0","license":"Apache-2.0","source":null}"#),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_kind_of_wrong_crate_is_found() {
        for (package, finding) in [
            (
                r#"{"name":"a","version":"1.0.0","license":"GPL-3.0-only","source":null}"#,
                "licence `GPL-3.0-only` is not allowed",
            ),
            (
                r#"{"name":"a","version":"1.0.0","license":null,"source":null}"#,
                "names no licence",
            ),
            (
                r#"{"name":"a","version":"1.0.0","license":"MIT OR","source":null}"#,
                "cannot read its licence",
            ),
            (
                r#"{"name":"openssl-sys","version":"1.0.0","license":"MIT","source":null}"#,
                "is banned: one TLS stack",
            ),
            (
                r#"{"name":"a","version":"1.0.0","license":"MIT","source":"git+https://example.org/a"}"#,
                "not from the default registry",
            ),
            (
                r#"{"name":"a","version":"1.0.0","license":"MIT","source":"registry+https://example.org/index"}"#,
                "not from the default registry",
            ),
        ] {
            let found = found(package);
            assert_eq!(found.len(), 1, "{package}: {found:?}");
            assert!(found[0].contains(finding), "{package}: {found:?}");
        }
    }

    #[test]
    fn an_ignored_advisory_and_a_ban_need_reasons() {
        let silent = POLICY.replace("comes with sled", " ");
        let none = Metadata {
            packages: Vec::new(),
        };
        assert_eq!(check(&parse(&silent).unwrap(), &none).unwrap().len(), 1);
        assert!(parse(&POLICY.replace(r#", reason = "one TLS stack""#, "")).is_err());
    }

    #[test]
    fn a_policy_that_allows_no_single_licence_is_broken() {
        let none = Metadata {
            packages: Vec::new(),
        };
        assert!(
            check(
                &parse(&POLICY.replace(r#""MIT""#, r#""MIT OR Zlib""#)).unwrap(),
                &none
            )
            .is_err()
        );
    }

    #[test]
    fn the_projects_own_policy_can_be_read() {
        parse(include_str!("../../.deny.toml")).unwrap();
    }
}
