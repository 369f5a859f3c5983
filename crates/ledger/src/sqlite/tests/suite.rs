//! The suite, on a file.

use std::sync::Arc;

use camino::Utf8Path;
use tempfile::TempDir;

use super::super::SqliteLedger;
use crate::conformance::Store;
use crate::contract::Ledger;

struct Files(TempDir);

impl Store for Files {
    fn open(&self) -> Arc<dyn Ledger> {
        let dir = Utf8Path::from_path(self.0.path()).expect("a UTF-8 path");
        Arc::new(SqliteLedger::open(dir).expect("it opens"))
    }
}

crate::conformance_tests!(Files(tempfile::tempdir().expect("a directory")));
