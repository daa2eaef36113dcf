//! Output of the command: findings to standard error, files written so that nothing is ever half there.

use crate::cli::Format;
use crate::progress::Progress;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use tandem_bir::diag::{Diagnostic, Severity, codes, render};

/// Where text goes and how it looks.
#[derive(Debug, Clone)]
pub struct Console {
    /// Only errors.
    pub quiet: bool,
    /// Notes too.
    pub verbose: bool,
    /// What is under way.
    pub progress: Progress,
}

impl Console {
    /// Says what is under way, for work over a second.
    pub fn stage(&self, what: &str) {
        self.progress.stage(what, 0);
    }
    /// Writes to standard output; what is under way is wiped first.
    pub fn print(&self, text: &str) {
        self.progress.finish();
        print(text);
    }
    /// A JSON value, indented, on standard output.
    pub fn json(&self, v: &serde_json::Value) {
        let mut s = serde_json::to_string_pretty(v).unwrap_or_default();
        s.push('\n');
        self.print(&s);
    }
    /// Findings as `{"diagnostics": [...]}` on standard output, or as text on standard error.
    pub fn findings(&self, diags: &[Diagnostic], format: Format) {
        match format {
            Format::Text => self.diagnostics(diags),
            Format::Json => {
                self.json(&serde_json::json!({ "diagnostics": render::list_to_json(diags) }));
            }
        }
    }
    /// Findings beside what is on standard output: on standard error, as text or as one line `{"diagnostics": [...]}`.
    pub fn beside(&self, diags: &[Diagnostic], format: Format) {
        if format == Format::Text {
            return self.diagnostics(diags);
        }
        let list: Vec<serde_json::Value> =
            diags.iter().filter(|d| self.shows(d.severity)).map(render::to_json).collect();
        self.progress.finish();
        if !list.is_empty() {
            eprint(&format!("{}\n", serde_json::json!({ "diagnostics": list })));
        }
    }
    fn shows(&self, level: Severity) -> bool {
        match level {
            Severity::Note => self.verbose,
            Severity::Warning => !self.quiet,
            Severity::Error => true,
        }
    }
    /// Prints findings for people on standard error, worst last so that it stays in sight.
    pub fn diagnostics(&self, diags: &[Diagnostic]) {
        let err = io::stderr();
        let ansi = err.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        let style = if ansi { render::Style::Ansi } else { render::Style::Plain };
        let source = |file: &str, line: u32| {
            let text = std::fs::read_to_string(file).ok()?;
            text.lines().nth(line.checked_sub(1)? as usize).map(str::to_owned)
        };
        self.progress.finish();
        let mut lock = err.lock();
        for level in [Severity::Note, Severity::Warning, Severity::Error] {
            let shown = self.shows(level);
            for d in diags.iter().filter(|d| shown && d.severity == level) {
                let _ = lock.write_all(render::text(d, style, &source).as_bytes());
            }
        }
    }
    /// One line for people on standard output.
    pub fn line(&self, text: &str) {
        self.progress.finish();
        if !self.quiet {
            print(&format!("{text}\n"));
        }
    }
}

/// Writes text to standard output; a closed pipe is not an error.
pub fn print(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// Writes text to standard error.
pub fn eprint(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// The finding that a file cannot be written.
pub fn cannot_write(path: &Path, e: &io::Error) -> Diagnostic {
    Diagnostic::new(codes::U0004, format!("cannot write {}: {e}", path.display()))
}

/// Writes a whole file: to a temporary name in the same folder first, then renamed.
///
/// # Errors
/// As the file system says; an existing file is untouched then.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut f = Unfinished::create(path)?;
    f.write_all(bytes)?;
    f.commit()
}

/// A file being written under a temporary name in its folder. It gets its own name when it is complete; dropped before that,
/// it is gone and an existing file is untouched.
#[derive(Debug)]
pub struct Unfinished {
    tmp: tempfile::NamedTempFile,
    path: PathBuf,
}

impl Unfinished {
    /// Begins a file; makes its folder.
    ///
    /// # Errors
    /// As the file system says.
    pub fn create(path: &Path) -> io::Result<Unfinished> {
        let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir)?;
        Ok(Unfinished { tmp: tempfile::NamedTempFile::new_in(dir)?, path: path.to_path_buf() })
    }
    /// Gives the file its name.
    ///
    /// # Errors
    /// As the file system says.
    pub fn commit(self) -> io::Result<()> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // A temporary file is private; an output is an ordinary file.
            self.tmp.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
        }
        self.tmp.persist(&self.path).map_err(|e| e.error)?;
        Ok(())
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tmp.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.tmp.flush()
    }
}
