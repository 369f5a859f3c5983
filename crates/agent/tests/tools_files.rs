//! The tools on real files.
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::os::unix::fs::{PermissionsExt as _, symlink};

use camino::{Utf8Path, Utf8PathBuf};
use holdpoint_agent::tools::{Effects, Limits, PlannedCall, ToolError, ToolResult, Tools};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

struct World {
    _dir: TempDir,
    root: Utf8PathBuf,
    tools: Tools,
}

impl World {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::try_from(dir.path().canonicalize().unwrap()).unwrap();
        let workspace = root.join("ws");
        std::fs::create_dir(&workspace).unwrap();
        Self { _dir: dir, root, tools: Tools::new(workspace, limits) }
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        self.tools.workspace().join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> Utf8PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    async fn plan(&self, name: &str, args: Value) -> Result<PlannedCall, ToolError> {
        self.tools.plan(name, &args).await
    }

    async fn run(&self, name: &str, args: Value) -> ToolResult {
        match self.plan(name, args).await {
            Ok(planned) => self.tools.run(planned, CancellationToken::new()).await,
            Err(error) => ToolResult { text: error.to_string(), is_error: true, content: Vec::new() },
        }
    }

    async fn ok(&self, name: &str, args: Value) -> String {
        let result = self.run(name, args).await;
        assert!(!result.is_error, "{}", result.text);
        result.text
    }

    async fn error(&self, name: &str, args: Value) -> String {
        let result = self.run(name, args).await;
        assert!(result.is_error, "{}", result.text);
        result.text
    }
}

fn text(path: &Utf8Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn read_file_gives_lines_and_says_how_to_go_on() {
    let world = World::new();
    world.put("a.txt", "one\ntwo\nthree");
    assert_eq!(world.ok("read_file", json!({"absolute_path": world.path("a.txt")})).await, "one\ntwo\nthree");
    let part = world.ok("read_file", json!({"file_path": "a.txt", "offset": 1, "limit": 1})).await;
    assert_eq!(part, "two\n[lines 2 to 2 of 3; go on with offset 2]");
    let end = world.ok("read_file", json!({"path": "./a.txt", "offset": "2"})).await;
    assert_eq!(end, "three\n[lines 3 to 3 of 3]");
    assert!(world.ok("read_file", json!({"path": "a.txt", "offset": 9})).await.contains("only 3 lines"));
    world.put("empty", "");
    assert!(world.ok("read_file", json!({"path": "empty"})).await.contains("empty"));
}

#[tokio::test]
async fn read_file_bounds_what_it_gives() {
    let world = World::with(Limits { output_bytes: 100, file_bytes: 1000, ..Limits::default() });
    world.put("long", "0123456789\n".repeat(50));
    let part = world.ok("read_file", json!({"path": "long"})).await;
    assert!(part.ends_with("[lines 1 to 9 of 50; go on with offset 9]"), "{part}");
    world.put("line", "é".repeat(400));
    assert!(world.ok("read_file", json!({"path": "line"})).await.contains("the line goes on"));
    world.put("large", "x".repeat(1001));
    assert!(world.error("read_file", json!({"path": "large"})).await.contains("1001 bytes"));
}

#[tokio::test]
async fn errors_say_what_was_wrong_and_what_to_do() {
    let world = World::new();
    world.put("README.md", "x");
    world.put("bin", [0_u8, 1, 2]);
    world.put("latin", [b'a', 0xe9]);
    assert!(world.error("read_file", json!({"path": "README.mk"})).await.contains("did you mean README.md"));
    assert!(world.error("read_file", json!({"path": "README.md/x"})).await.contains("there is no file"));
    assert!(world.error("read_file", json!({"path": "."})).await.contains("list_directory"));
    assert!(world.error("read_file", json!({"path": "bin"})).await.contains("not a text file"));
    assert!(world.error("read_file", json!({"path": "latin"})).await.contains("not a text file"));
    assert!(world.error("read_file", json!({})).await.contains("\"absolute_path\" is missing"));
    assert!(world.error("read_file", json!("{\"path\": oops")).await.contains("not valid JSON"));
    assert!(world.error("read_file", json!([1])).await.contains("JSON object"));
    assert!(world.error("read_file", json!({"path": 3})).await.contains("must be a text"));
    assert!(world.error("read_file", json!({"path": "a", "limit": -1})).await.contains("whole number"));
    let unknown = world.error("read_flie", json!({})).await;
    assert!(unknown.contains("no tool \"read_flie\"") && unknown.contains("grep_search"));
    assert!(world.error("list_directory", json!({"path": "README.md"})).await.contains("read_file"));
    assert!(world.error("glob", json!({"pattern": "[a"})).await.contains("not valid"));
    assert!(world.error("glob", json!({"pattern": "../*"})).await.contains("relative"));
    assert!(world.error("grep_search", json!({"pattern": "(a"})).await.contains("not valid"));
    assert!(world.error("write_file", json!({"path": ".", "content": ""})).await.contains("a directory"));
    assert!(world.error("write_file", json!({"path": "a"})).await.contains("\"content\" is missing"));
}

#[tokio::test]
async fn write_file_makes_parents_keeps_the_mode_and_shows_a_diff() {
    let world = World::new();
    let planned =
        world.plan("write_file", json!({"file_path": "deep/er/a.sh", "content": "hi\n"})).await.unwrap();
    assert_eq!((planned.kind, planned.effects, planned.outside_workspace), ("edit", Effects::Edits, false));
    assert_eq!(
        planned.content,
        [json!({"type":"diff","path":world.path("deep/er/a.sh"),"oldText":null,"newText":"hi\n"})]
    );
    let result = world.tools.run(planned, CancellationToken::new()).await;
    assert!(result.text.starts_with("Created deep/er/a.sh"), "{}", result.text);
    assert_eq!(result.content[0]["type"], "diff");

    let path = world.path("deep/er/a.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    let planned = world.plan("write_file", json!({"file_path": path, "content": "new"})).await.unwrap();
    assert_eq!(planned.content[0]["oldText"], "hi\n");
    world.tools.run(planned, CancellationToken::new()).await;
    assert_eq!(text(&path), "new");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o750);
    let left: Vec<_> =
        path.parent().unwrap().read_dir_utf8().unwrap().map(|e| e.unwrap().file_name().to_owned()).collect();
    assert_eq!(left, ["a.sh"], "no temporary file stays");

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o440)).unwrap();
    assert!(world.error("write_file", json!({"path": path, "content": "x"})).await.contains("read-only"));
}

#[tokio::test]
async fn write_file_writes_through_a_link_inside_the_workspace() {
    let world = World::new();
    let target = world.put("real", "old");
    symlink("real", world.path("link")).unwrap();
    world.ok("write_file", json!({"path": "link", "content": "new"})).await;
    assert_eq!(text(&target), "new");
    assert!(world.path("link").symlink_metadata().unwrap().is_symlink());
}

#[tokio::test]
async fn edit_replaces_exactly_what_it_was_told() {
    let world = World::new();
    let path = world.put("a", "let x = 1;\nlet y = 1;\n");
    let edit = |old: &str, new: &str, all: bool| json!({"file_path": "a", "old_string": old, "new_string": new, "replace_all": all});
    assert!(world.error("edit", edit("= 1", "= 2", false)).await.contains("2 times"));
    assert!(world.error("edit", edit("= 3", "= 2", false)).await.contains("not in"));
    assert!(world.error("edit", edit("let  x", "a", false)).await.contains("other whitespace"));
    assert!(world.error("edit", edit("x", "x", false)).await.contains("same"));
    assert!(world.error("edit", edit("", "x", false)).await.contains("already there"));
    let planned = world.plan("edit", edit("x = 1", "x = 2", false)).await.unwrap();
    assert_eq!(planned.content[0]["newText"], "let x = 2;\nlet y = 1;\n");
    assert_eq!(text(&path), "let x = 1;\nlet y = 1;\n", "a plan changes nothing");
    assert!(!world.tools.run(planned, CancellationToken::new()).await.is_error);
    assert!(world.ok("edit", edit("let", "const", true)).await.contains("2 times"));
    assert_eq!(text(&path), "const x = 2;\nconst y = 1;\n");
    assert!(
        world
            .ok("edit", json!({"path": "new/file", "old_string": "", "new_string": "n"}))
            .await
            .contains("Created")
    );
    assert_eq!(text(&world.path("new/file")), "n");

    world.put("many", "a".repeat(1 << 20));
    let blown =
        json!({"path": "many", "old_string": "a", "new_string": "b".repeat(1 << 16), "replace_all": true});
    assert!(world.error("edit", blown).await.contains("more than"));

    let dos = world.put("dos", "a\r\nb\r\n");
    world.ok("edit", json!({"path": "dos", "old_string": "a\nb", "new_string": "c\nd"})).await;
    assert_eq!(text(&dos), "c\r\nd\r\n");
}

#[tokio::test]
async fn an_edit_that_no_longer_fits_is_refused_when_it_runs() {
    let world = World::new();
    world.put("a", "one");
    let planned =
        world.plan("edit", json!({"path": "a", "old_string": "one", "new_string": "two"})).await.unwrap();
    world.put("a", "changed meanwhile");
    let result = world.tools.run(planned, CancellationToken::new()).await;
    assert!(result.is_error && result.text.contains("not in"), "{}", result.text);

    world.put("dir/a", "x");
    let planned = world.plan("write_file", json!({"path": "dir/a", "content": "y"})).await.unwrap();
    std::fs::remove_dir_all(world.path("dir")).unwrap();
    std::fs::create_dir(world.root.join("out")).unwrap();
    symlink(world.root.join("out"), world.path("dir")).unwrap();
    let result = world.tools.run(planned, CancellationToken::new()).await;
    assert!(result.is_error && result.text.contains("changed between"), "{}", result.text);
    assert!(!world.root.join("out/a").exists(), "consent for one place is not consent for another");
}

#[tokio::test]
async fn outside_paths_are_marked_for_every_tool_and_not_told_about() {
    let world = World::new();
    std::fs::write(world.root.join("secret"), "s3cret").unwrap();
    symlink("../secret", world.path("link")).unwrap();
    for (tool, args) in [
        ("read_file", json!({"path": "../secret"})),
        ("read_file", json!({"path": "link"})),
        ("write_file", json!({"path": "/tmp/x", "content": ""})),
        ("edit", json!({"path": "link", "old_string": "not there", "new_string": ""})),
        ("list_directory", json!({"path": ".."})),
        ("glob", json!({"pattern": "*", "path": "/"})),
        ("grep_search", json!({"pattern": "x", "path": ".."})),
        ("run_shell_command", json!({"command": "true", "directory": ".."})),
    ] {
        let planned =
            world.plan(tool, args.clone()).await.unwrap_or_else(|error| panic!("{tool} {args}: {error}"));
        assert!(planned.outside_workspace, "{tool} {args}");
    }
    let inside = world.plan("list_directory", json!({"path": world.tools.workspace()})).await.unwrap();
    assert!(!inside.outside_workspace);
}

#[tokio::test]
async fn list_glob_and_grep_find_what_is_there() {
    let world = World::new();
    assert!(world.ok("list_directory", json!({"path": "."})).await.contains("empty"));
    world.put("src/main.rs", "fn main() {}\n// TODO: one\n");
    world.put("src/lib/a.rs", "// todo: two\n");
    world.put("target/out.rs", "TODO");
    world.put(".gitignore", "target/\n");
    world.put(".git/config", "TODO");
    world.put("bin.dat", b"TODO\0TODO".as_slice());
    symlink("/", world.path("rootlink")).unwrap();
    assert_eq!(
        world.ok("list_directory", json!({"path": ""})).await.lines().collect::<Vec<_>>(),
        [".git/", "src/", "target/", ".gitignore", "bin.dat", "rootlink@"]
    );
    let mut found: Vec<_> =
        world.ok("glob", json!({"pattern": "**/*.rs"})).await.lines().map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, [world.path("src/lib/a.rs"), world.path("src/main.rs")]);
    assert_eq!(world.ok("glob", json!({"pattern": world.path("src/*.rs")})).await, world.path("src/main.rs"));
    assert!(world.ok("glob", json!({"pattern": "*.py"})).await.starts_with("No files"));

    let hits = world.ok("grep_search", json!({"pattern": "todo"})).await;
    assert!(
        hits.contains("src/main.rs:2: // TODO: one") && hits.contains("src/lib/a.rs:1: // todo: two"),
        "{hits}"
    );
    assert!(hits.starts_with("2 matches"), "{hits}");
    let hits =
        world.ok("grep_search", json!({"pattern": "TODO", "case_sensitive": true, "glob": "*.rs"})).await;
    assert!(hits.starts_with("1 matches"), "{hits}");
    let hits = world.ok("grep_search", json!({"pattern": "todo", "path": "src/main.rs"})).await;
    assert!(hits.contains("main.rs:2:"), "{hits}");
    assert!(world.ok("grep_search", json!({"pattern": "nowhere"})).await.starts_with("No matches"));
    assert!(world.ok("grep_search", json!({"pattern": "todo", "limit": 1})).await.contains("more matches"));
    assert!(
        world
            .error("grep_search", json!({"pattern": "a", "path": "nope"}))
            .await
            .contains("there is no file")
    );
}

#[tokio::test]
async fn a_cancelled_search_says_so_and_a_cancelled_write_does_nothing() {
    let world = World::new();
    world.put("a", "x");
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    for (tool, args) in [
        ("grep_search", json!({"pattern": "x"})),
        ("glob", json!({"pattern": "*"})),
        ("write_file", json!({"path": "b", "content": ""})),
        ("run_shell_command", json!({"command": "touch b"})),
    ] {
        let planned = world.plan(tool, args).await.unwrap();
        let result = world.tools.run(planned, cancelled.clone()).await;
        assert!(result.is_error && result.text.contains("cancelled"), "{tool}");
    }
    assert!(!world.path("b").exists());
}

#[tokio::test]
async fn every_tool_is_offered_under_its_name_with_an_object_schema() {
    let world = World::new();
    for spec in world.tools.specs() {
        assert!(world.tools.has(&spec.name));
        assert_eq!(spec.parameters["type"], "object");
        for required in spec.parameters["required"].as_array().unwrap() {
            assert!(spec.parameters["properties"].get(required.as_str().unwrap()).is_some(), "{required}");
        }
    }
    assert_eq!(world.tools.specs().len(), 7);
}

mod any_input {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
            Just(json!("../..")),
            Just(json!("a"))
        ];
        leaf.prop_recursive(2, 8, 3, |inner| prop::collection::vec(inner, 0..3).prop_map(Value::from))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn plans_or_refuses_but_never_panics(
            tool in prop::sample::select(vec!["read_file", "write_file", "edit", "list_directory", "glob", "grep_search", "run_shell_command"]),
            fields in prop::collection::btree_map(prop::sample::select(vec![
                "file_path", "path", "content", "old_string", "new_string", "replace_all", "pattern", "glob", "limit", "offset",
                "command", "directory", "timeout", "is_background", "description", "case_sensitive",
            ]), value(), 0..8),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let world = World::new();
                world.put("a", "text");
                let outcome = world.plan(tool, json!(fields)).await;
                assert_ne!(outcome.err(), Some(ToolError::Internal));
            });
        }
    }
}
