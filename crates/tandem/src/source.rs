//! Source text of kernels, read by the names that their positions carry.

use crate::load::read_relative;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Longest source file that is read (our choice).
const LONGEST: u64 = 4 << 20;

/// Reads source files once. A kernel file may name any path: only ordinary files called `*.py` and not too long are read, as named
/// or, failing that, in the folder of the kernel file.
#[derive(Debug)]
pub struct Sources {
    folder: PathBuf,
    read: RefCell<BTreeMap<String, Option<String>>>,
}

impl Sources {
    /// Sources of an input file.
    pub fn of(file: &Path) -> Sources {
        Sources {
            folder: file.parent().unwrap_or(Path::new("")).to_path_buf(),
            read: RefCell::new(BTreeMap::new()),
        }
    }
    /// The text of a file.
    pub fn text(&self, name: &str) -> Option<String> {
        if let Some(t) = self.read.borrow().get(name) {
            return t.clone();
        }
        let text = self.find(name);
        self.read.borrow_mut().insert(name.to_owned(), text.clone());
        text
    }
    fn find(&self, name: &str) -> Option<String> {
        let p = Path::new(name);
        if p.extension().is_none_or(|x| x != "py") {
            return None;
        }
        let plain = |p: &Path| std::fs::metadata(p).is_ok_and(|m| m.is_file() && m.len() <= LONGEST);
        let bytes = if plain(p) {
            std::fs::read(p).ok()
        } else if plain(&self.folder.join(p)) {
            read_relative(&self.folder, name).ok()
        } else {
            None
        };
        Some(String::from_utf8_lossy(&bytes?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_python_files_only_beside_the_kernel_or_as_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |n: &str| dir.path().join(n);
        std::fs::create_dir(at("in")).expect("a folder");
        for (n, t) in [("in/k.py", "kernel"), ("secret.txt", "no"), ("up.py", "up"), ("in/long.py", "")] {
            std::fs::write(at(n), t).expect("written");
        }
        std::fs::File::options()
            .write(true)
            .open(at("in/long.py"))
            .and_then(|f| f.set_len(LONGEST + 1))
            .expect("grown");
        let s = Sources::of(&at("in/k.klr"));
        assert_eq!(s.text("k.py").as_deref(), Some("kernel"));
        assert_eq!(s.text(&at("up.py").display().to_string()).as_deref(), Some("up"));
        assert_eq!(s.text("../up.py"), None, "a relative name does not leave the folder");
        assert_eq!(s.text(&at("secret.txt").display().to_string()), None);
        assert_eq!(s.text("long.py"), None);
        assert_eq!(s.text("/dev/zero"), None);
        assert_eq!(s.text("none.py"), None);
    }
}
