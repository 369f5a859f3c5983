//! What the page takes from others is what its manifest says, byte for byte, and may be given on. Offline: the hashes were
//! written when the files were taken.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Licences that this project may carry.
const PERMISSIVE: [&str; 5] = ["MIT", "Apache-2.0", "BSD-3-Clause", "BSD-2-Clause", "ISC"];

#[derive(serde::Deserialize)]
struct Manifest {
    file: Vec<BTreeMap<String, String>>,
}

#[test]
fn vendored_files_are_those_of_their_manifest() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/vendor");
    let manifest: Manifest =
        toml::from_str(&std::fs::read_to_string(dir.join("vendor.toml")).unwrap()).unwrap();
    let licences = std::fs::read_to_string(dir.join("LICENSES.txt")).unwrap();
    let mut named = BTreeSet::from(["vendor.toml".to_owned(), "LICENSES.txt".to_owned()]);
    for file in &manifest.file {
        let path = &file["path"];
        let bytes = std::fs::read(dir.join(path)).unwrap();
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, file["sha256"], "{path} is not what was taken");
        assert!(!bytes.contains(&b'\r'), "{path} has line ends of another system");
        assert!(PERMISSIVE.contains(&file["licence"].as_str()), "{path}: {}", file["licence"]);
        for field in ["name", "version", "integrity"] {
            assert!(!file[field].is_empty(), "{path} has no {field}");
        }
        assert!(licences.contains(&file["name"]), "{path} comes without the text of its licence");
        named.insert(path.clone());
    }
    let there =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // Types are ours.
    let ours = |name: &String| name.ends_with(".d.ts");
    let unnamed: Vec<_> = there.filter(|name| !named.contains(name) && !ours(name)).collect();
    assert!(unnamed.is_empty(), "not in the manifest: {unnamed:?}");
}
