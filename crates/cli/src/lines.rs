//! The lines of `haul sync` about entries, in rsync's format.

mod format;

use self::format::{Field, Part, parts};
use crate::error::CommandError;
use crate::json::{self, Object};
use crate::quantity;
use crate::report::{Lazy, Message, Report};
use haul_engine::Links;
use haul_model::{
    Attributes, Backup, Changes, ContentHash, Entry, Kind, Mirror, escape_octal, escape_text,
    unescape_high,
};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The format of lines, and the selection of entries that have a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// The parts of a line. Without parts there are no lines.
    parts: Vec<Part>,
    /// Entries with only updated attributes have a line.
    pub(crate) itemizes: bool,
    /// Unchanged entries have a line.
    prints_unchanged: bool,
    /// Removed entries have a line even if others do not.
    pub(crate) prints_removed: bool,
    /// Links that are skipped because they lead out of the destination have a line.
    pub(crate) prints_unsafe: bool,
    /// Files that are skipped because the destination's file exists or is newer have a line.
    pub(crate) prints_skipped: bool,
    /// Progress is printed even without a terminal.
    pub(crate) prints_progress: bool,
    /// A created destination has a line.
    pub(crate) prints_created: bool,
    /// Bytes above ASCII are printed unescaped.
    pub(crate) eight_bit: bool,
    /// The backups, if they have lines.
    pub(crate) backup: Option<Backup>,
    /// Copies get the times of their sources.
    pub(crate) keeps_times: bool,
    /// Copied links get the times of their sources.
    pub(crate) keeps_link_times: bool,
    /// The format of lines in a list.
    pub(crate) columns: Columns,
    /// The log file.
    pub(crate) log: Option<Box<LogConfig>>,
}

/// The path and the format of a log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogConfig {
    pub(crate) path: OsString,
    /// The links that are followed to it.
    pub(crate) links: Links,
    /// The format of its lines.
    pub(crate) lines: Lines,
}

/// Changes that alone need no line: content reused from another place, and hard links.
const UNLISTED_CHANGES: Changes = Changes::LOCAL.with(Changes::LINKED);

/// The width of `%C`.
const CHECKSUM_COLUMNS: usize = 64;

/// The result of an entry of a mirror.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SyncFate<'a> {
    /// The entry differed by these changes or was missing, and now equals the source.
    Synced(Changes),
    /// The entry was hard-linked to the file at the path, and differed by these changes before. An
    /// empty path: it was already linked.
    Linked(Changes, &'a [u8]),
    Deleted,
}

/// The data of a listed entry that lines can show.
pub(crate) struct Listed {
    /// The source's attributes; empty for a removed entry. Owners only if they are preserved.
    pub(crate) attributes: Attributes,
    /// The entry is a device, not a FIFO or socket.
    pub(crate) is_device: bool,
    /// The hash of the content, if lines show it and this side knows it.
    pub(crate) hash: Option<ContentHash>,
}

/// True if the entry was sent, created, or made from a base with other attributes.
fn is_sent_or_made(found: Changes) -> bool {
    let is_changed = found.has(Changes::LOCAL) && !found.without(UNLISTED_CHANGES).is_empty();
    is_changed || found.has_any(Changes::SENT.with(Changes::MISSING))
}

/// The line with bytes above ASCII unescaped.
fn eight_bit(line: &dyn Message) -> impl Message + '_ {
    let text = || unescape_high(&line.text());
    Lazy { level: line.level(), text, json: || line.json() }
}

/// An entry's line.
pub(crate) struct Itemized<'a> {
    pub(crate) lines: &'a Lines,
    pub(crate) path: &'a [u8],
    pub(crate) kind: &'a Kind,
    pub(crate) listed: &'a Listed,
    pub(crate) fate: SyncFate<'a>,
    /// The entry is sent to another machine.
    pub(crate) is_outgoing: bool,
}

/// The reason why a mirror skips an entry of this kind.
pub(crate) fn mirror_skip_reason(kind: &Kind) -> &'static str {
    match kind {
        Kind::Dir => "skipped: use -r for directories",
        Kind::Special => "skipped: use --specials for FIFOs and sockets, --devices for devices",
        Kind::Symlink { .. } => "skipped: use -l or -L for symbolic links",
        Kind::File { .. } => "skipped: a temporary file of haul",
    }
}

/// The line about a created destination; `dirs` is the number of created directories.
pub(crate) fn created_line(path: &[u8], dirs: u64, mirror: Option<&Mirror>) -> String {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(path.len(), |last| last + 1);
    let path = escape_octal(&path[..end]);
    match (mirror.is_some_and(|mirror| mirror.creates_parents), dirs) {
        (false, _) => format!("created directory {path}\n"),
        (true, 1) => format!("created 1 directory for {path}\n"),
        (true, _) => format!("created {dirs} directories for {path}\n"),
    }
}

impl Lines {
    /// The lines for this number of `-i` and `-v`, or for `format`.
    ///
    /// # Errors
    /// If the format contains an unknown escape.
    pub(crate) fn new(
        itemize: u8,
        verbose: u8,
        format: Option<&OsStr>,
    ) -> Result<Self, CommandError> {
        let format = match (format, itemize, verbose) {
            (Some(format), ..) => format.as_bytes(),
            (None, 0, 0) => b"",
            (None, 0, _) => b"%n%L",
            (None, ..) => b"%i %n%L",
        };
        let lines = Self::of_format("--out-format", format)?;
        let prints_unchanged = lines.itemizes && (itemize > 1 || verbose > 1);
        Ok(Self { prints_unchanged, keeps_times: true, keeps_link_times: true, ..lines })
    }

    /// The lines with `format`, the value of the option `word`.
    fn of_format(word: &str, format: &[u8]) -> Result<Self, CommandError> {
        let parts = parts(word, format)?;
        let itemizes = parts.iter().any(|part| part.field == Field::Changes);
        Ok(Self { parts, itemizes, ..Self::default() })
    }

    /// Replaces lines about entries by a list of the sources.
    pub(crate) fn for_list(self, columns: Columns) -> Self {
        Self { columns, log: self.log, eight_bit: self.eight_bit, ..Self::default() }
    }

    pub(crate) fn print(&self, line: &dyn Message, report: &Report) {
        match self.eight_bit {
            true => report.message(&eight_bit(line)),
            false => report.message(line),
        }
    }

    /// True if an entry with this fate got a backup, and backups have lines. Directories get none.
    pub(crate) fn has_backup_line(&self, kind: &Kind, fate: SyncFate<'_>) -> bool {
        let is_replaced = |found: Changes| {
            let is_made = found.has(Changes::SENT) || found.has(Changes::LOCAL);
            is_made && !found.has(Changes::MISSING) && !found.has(Changes::KIND)
        };
        let has_backup = match fate {
            SyncFate::Synced(found) => is_replaced(found),
            SyncFate::Linked(found, first) => !first.is_empty() && !found.has(Changes::MISSING),
            SyncFate::Deleted => true,
        };
        self.backup.is_some() && *kind != Kind::Dir && has_backup
    }

    pub(crate) fn backup_line(&self, path: &[u8]) -> String {
        let Backup { dir, suffix } = self.backup.clone().unwrap_or_default();
        let dir = dir.map(|dir| [&*dir, b"/"].concat()).unwrap_or_default();
        let to = [&*dir, path, &*suffix].concat();
        format!("backed up {} to {}\n", escape_octal(path), escape_octal(&to))
    }

    /// Removes all lines, except those in the log.
    pub(crate) fn log_only(self) -> Self {
        Self { columns: self.columns, log: self.log, ..Self::default() }
    }

    /// True if the format shows the operation or the changes of an entry.
    fn shows_changes(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.field, Field::Changes | Field::Operation))
    }

    /// Adds a log at `path` with its own format. Only `links` are followed to the file.
    ///
    /// # Errors
    /// If the format contains an unknown escape.
    pub(crate) fn with_log(
        self,
        path: Option<&OsStr>,
        links: Links,
        format: Option<&OsStr>,
    ) -> Result<Self, CommandError> {
        let format = format.unwrap_or(OsStr::new("%i %n%L"));
        let lines = Self::of_format("--log-file-format", format.as_bytes())?;
        let Self { keeps_times, keeps_link_times, columns, .. } = self;
        let lines = Self { keeps_times, keeps_link_times, columns, ..lines };
        let log = path.map(|path| Box::new(LogConfig { path: path.to_owned(), links, lines }));
        Ok(Self { log, ..self })
    }

    /// True if an entry with this fate is logged: created, sent or removed entries, and directories
    /// with updated attributes.
    pub(crate) fn is_logged(&self, kind: &Kind, fate: SyncFate<'_>) -> bool {
        match fate {
            _ if self.parts.is_empty() => false,
            SyncFate::Linked(_, first) => !first.is_empty(),
            SyncFate::Synced(found) => {
                is_sent_or_made(found)
                    || *kind == Kind::Dir && !found.without(UNLISTED_CHANGES).is_empty()
            }
            SyncFate::Deleted => true,
        }
    }

    /// True if any lines about entries are enabled.
    pub(crate) fn has_any(&self) -> bool {
        let prints_some = self.prints_unsafe || self.prints_skipped || self.backup.is_some();
        prints_some || !self.parts.is_empty()
    }

    /// True if lines show attributes of entries.
    pub(crate) fn wants_attributes(&self) -> bool {
        let is_one =
            |field: &Field| matches!(field, Field::Mode | Field::Time | Field::User | Field::Group);
        self.parts.iter().any(|part| is_one(&part.field))
    }

    /// True if lines show hashes of entries.
    pub(crate) fn wants_hashes(&self) -> bool {
        self.parts.iter().any(|part| part.field == Field::Checksum)
    }

    /// True if an entry with this fate has a line.
    pub(crate) fn has_line(&self, kind: &Kind, fate: SyncFate<'_>) -> bool {
        match fate {
            SyncFate::Deleted => self.prints_removed || !self.parts.is_empty(),
            _ if self.parts.is_empty() => false,
            SyncFate::Linked(_, []) => self.prints_unchanged,
            SyncFate::Linked(..) => true,
            SyncFate::Synced(found) if found.without(UNLISTED_CHANGES).is_empty() => {
                self.prints_unchanged
            }
            SyncFate::Synced(found) => {
                self.itemizes || is_sent_or_made(found) || *kind == Kind::Dir
            }
        }
    }
}

impl Itemized<'_> {
    /// The eleven characters of rsync's `%i`.
    fn changes(&self) -> String {
        let (found, is_linked) = match self.fate {
            SyncFate::Synced(found) => (found, false),
            // As in rsync, the earlier content or target of the name is not shown.
            SyncFate::Linked(found, _) => {
                (found.without(Changes::CONTENT.with(Changes::TARGET)), true)
            }
            SyncFate::Deleted => return "*deleting  ".to_owned(),
        };
        let is_file = matches!(self.kind, Kind::File { .. });
        let kind = match self.kind {
            Kind::File { .. } => 'f',
            Kind::Dir => 'd',
            Kind::Symlink { .. } => 'L',
            Kind::Special if self.listed.is_device => 'D',
            Kind::Special => 'S',
        };
        let sent = found.has(Changes::SENT);
        let update = match (sent, is_file) {
            _ if is_linked || found.has(Changes::LOCAL.with(Changes::LINKED)) => 'h',
            _ if found.has(Changes::LOCAL) => 'c',
            (true, true) if self.is_outgoing => '<',
            (true, true) => '>',
            (true, false) => 'c',
            (false, _) if found.has(Changes::MISSING) => 'c',
            (false, _) => '.',
        };
        if found.has(Changes::MISSING) || found.has(Changes::KIND) {
            return format!("{update}{kind}+++++++++");
        }
        // A name that becomes a hard link gets the time of its file.
        let gets_link_time =
            is_file && !self.lines.keeps_times && matches!(self.fate, SyncFate::Linked(_, [_, ..]));
        if found.without(UNLISTED_CHANGES).is_empty() && !gets_link_time {
            return format!("{update}{kind}         ");
        }
        let letter = |change: Changes, letter: char| if found.has(change) { letter } else { '.' };
        // As in rsync, a link, FIFO or device counts as changed if the base's entry has other
        // attributes.
        let is_recreated =
            !is_file && !is_linked && found.has_any(Changes::TARGET.with(Changes::LOCAL));
        let is_changed = found.has(Changes::CONTENT) || is_recreated && kind != 'd';
        let is_made = sent || is_linked || found.has(Changes::LOCAL);
        let time = match is_made && is_file || is_recreated {
            true if !self.lines.keeps_times => 'T',
            true if kind == 'L' && !self.lines.keeps_link_times => 't',
            _ => letter(Changes::TIME, 't'),
        };
        format!(
            "{update}{kind}{}{}{time}{}{}{}{}{}{}",
            if is_changed { 'c' } else { '.' },
            letter(Changes::SIZE, 's'),
            letter(Changes::MODE, 'p'),
            letter(Changes::USER, 'o'),
            letter(Changes::GROUP, 'g'),
            letter(Changes::ATIME, 'u'),
            letter(Changes::ACL, 'a'),
            letter(Changes::XATTRS, 'x'),
        )
    }

    fn name(&self, slash: bool) -> String {
        let name = escape_octal(self.path);
        match (self.kind, slash) {
            (Kind::Dir, true) => format!("{name}/"),
            _ => name,
        }
    }

    /// The value of a field of the format.
    fn field(&self, field: &Field) -> String {
        let is_deleted = matches!(self.fate, SyncFate::Deleted);
        match field {
            Field::Text(text) => escape_text(&String::from_utf8_lossy(text)),
            Field::Changes => self.changes(),
            Field::Name { slash } => self.name(*slash),
            Field::Target => match (self.fate, self.kind) {
                (SyncFate::Linked(_, first @ [_, ..]), _) => format!(" => {}", escape_octal(first)),
                (_, Kind::Symlink { target }) if !is_deleted => {
                    format!(" -> {}", escape_octal(target))
                }
                _ => String::new(),
            },
            Field::Len => json::size(self.kind).unwrap_or_default().to_string(),
            Field::Operation => match (is_deleted, self.is_outgoing) {
                (true, _) => "del.",
                (_, true) => "send",
                (_, false) => "recv",
            }
            .to_owned(),
            Field::Process => std::process::id().to_string(),
            Field::Now => quantity::local_now(),
            Field::Bytes => "0".to_owned(),
            Field::Checksum => match self.listed.hash {
                Some(hash) => hash.to_string(),
                None => " ".repeat(CHECKSUM_COLUMNS),
            },
            Field::Module => String::new(),
            Field::Mode => quantity::permissions(self.listed.attributes.mode),
            Field::Time => quantity::local_date(self.listed.attributes.mtime).replace(' ', "-"),
            Field::User => self.listed.attributes.user.unwrap_or_default().to_string(),
            Field::Group => match self.listed.attributes.group {
                Some(group) => group.to_string(),
                None => "DEFAULT".to_owned(),
            },
        }
    }
}

impl Message for Itemized<'_> {
    fn text(&self) -> Vec<u8> {
        let is_deleted = matches!(self.fate, SyncFate::Deleted);
        let mut line = Vec::new();
        if is_deleted && !self.lines.shows_changes() {
            line.extend(format!("deleting {}\n", self.name(true)).as_bytes());
            return line;
        }
        for part in &self.lines.parts {
            line.extend(part.padded(self.field(&part.field)).as_bytes());
        }
        line.push(b'\n');
        line
    }

    fn json(&self) -> Option<Object> {
        Some(match self.fate {
            SyncFate::Synced(found) | SyncFate::Linked(found, []) => {
                json::synced(self.path, self.kind, found, None)
            }
            SyncFate::Linked(found, first) => {
                json::synced(self.path, self.kind, found, Some(first))
            }
            SyncFate::Deleted => json::deleted(self.path, self.kind),
        })
    }
}

/// The format of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The format of lengths: 0 digits, 1 with separators, 2 in powers of 1,000, 3 and more in
    /// powers of 1,024.
    pub(crate) readable: u8,
    /// Lines show access times.
    pub(crate) atimes: bool,
    /// Lines of links show their targets.
    pub(crate) targets: bool,
}

/// The line about a source entry.
pub(crate) fn listed_line(columns: Columns, path: &[u8], entry: &Entry) -> String {
    let width = if columns.readable == 0 { 11 } else { 14 };
    let atime = match (columns.atimes, entry.attributes.atime) {
        (false, _) => String::new(),
        (true, Some(atime)) if entry.kind != Kind::Dir => {
            format!(" {}", quantity::local_date(atime))
        }
        (true, _) => " ".repeat(20),
    };
    let target = match &entry.kind {
        Kind::Symlink { target } if columns.targets => format!(" -> {}", escape_octal(target)),
        _ => String::new(),
    };
    format!(
        "{} {:>width$} {}{} {}{target}\n",
        quantity::mode(entry),
        quantity::rsync_number(entry.shown_len(), columns.readable),
        quantity::local_date(entry.attributes.mtime),
        atime,
        escape_octal(path),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Attributes, Timestamp};

    fn line(lines: &Lines, kind: &Kind, fate: SyncFate<'_>, is_outgoing: bool) -> String {
        let time = Timestamp { secs: 86_400 * 365, nanos: 0 };
        let attributes = Attributes { user: Some(7), ..Attributes::new(0o4755, time) };
        let listed = &Listed { attributes, is_device: true, hash: None };
        let told = Itemized { lines, path: b"a/b\n", kind, listed, fate, is_outgoing };
        String::from_utf8(told.text()).expect("text")
    }

    #[test]
    fn lines_are_those_of_rsync() {
        let lines = Lines::new(1, 0, None).expect("a format");
        let file = Kind::File { size: 5 };
        let link = Kind::Symlink { target: (*b"to").into() };
        let new = SyncFate::Synced(Changes::MISSING.with(Changes::SENT));
        let grown = Changes::SIZE.with(Changes::TIME).with(Changes::SENT);
        let shown = [
            line(&lines, &file, new, false),
            line(&lines, &file, new, true),
            line(&lines, &file, SyncFate::Synced(grown), false),
            line(&lines, &file, SyncFate::Synced(Changes::MODE), true),
            line(&lines, &file, SyncFate::Synced(Changes::default()), true),
            line(&lines, &Kind::Dir, SyncFate::Synced(Changes::MISSING), false),
            line(&lines, &Kind::Dir, SyncFate::Synced(Changes::TIME), false),
            line(&lines, &link, new, false),
            line(&lines, &link, SyncFate::Synced(Changes::TARGET.with(Changes::SENT)), false),
            line(&lines, &Kind::Special, new, false),
            line(&lines, &Kind::Dir, SyncFate::Deleted, false),
        ];
        insta::assert_snapshot!(shown.concat(), @r##"
        >f+++++++++ a/b\#012
        <f+++++++++ a/b\#012
        >f.st...... a/b\#012
        .f...p..... a/b\#012
        .f          a/b\#012
        cd+++++++++ a/b\#012/
        .d..t...... a/b\#012/
        cL+++++++++ a/b\#012 -> to
        cLc........ a/b\#012 -> to
        cD+++++++++ a/b\#012
        *deleting   a/b\#012/
        "##);
    }

    #[test]
    fn a_name_that_is_linked_without_times_has_another_time() {
        let lines = Lines::new(1, 0, None).expect("a format");
        let lines = Lines { keeps_times: false, keeps_link_times: false, ..lines };
        let (file, fate) = (Kind::File { size: 5 }, SyncFate::Linked(Changes::default(), b"x"));
        assert_eq!(line(&lines, &file, fate, false), "hf..T...... a/b\\#012 => x\n");
        let before = SyncFate::Linked(Changes::default(), b"");
        assert_eq!(line(&lines, &file, before, false), "hf          a/b\\#012\n");
    }

    #[test]
    fn a_link_that_a_base_has_with_other_attributes_is_reported_as_changed() {
        let lines = Lines::new(1, 0, None).expect("a format");
        let timeless = Lines { keeps_times: false, keeps_link_times: false, ..lines.clone() };
        let link = Kind::Symlink { target: (*b"to").into() };
        let found = Changes::USER.with(Changes::LOCAL).with(Changes::SENT);
        let shown = |lines: &Lines| {
            let fates = [SyncFate::Synced(found), SyncFate::Linked(found, b"x")];
            let [link, name] = fates.map(|fate| line(lines, &link, fate, false));
            link + &line(lines, &Kind::Dir, fates[0], false) + &name
        };
        insta::assert_snapshot!(shown(&lines) + &shown(&timeless), @r##"
        cLc...o.... a/b\#012 -> to
        cd....o.... a/b\#012/
        hL....o.... a/b\#012 => x
        cLc.T.o.... a/b\#012 -> to
        cd..T.o.... a/b\#012/
        hL....o.... a/b\#012 => x
        "##);
    }

    #[test]
    fn a_format_has_what_is_known() {
        let format = |format: &str| Lines::new(0, 0, Some(OsStr::new(format)));
        let lines = format("%o %l 100%% %f").expect("a format");
        let file = Kind::File { size: 5 };
        let new = SyncFate::Synced(Changes::MISSING.with(Changes::SENT));
        assert_eq!(line(&lines, &file, new, false), "recv 5 100% a/b\\#012\n");
        let lines = format("[%a %h %m %P %u] %b %c [%C]").expect("a format");
        let (checksum, told) = (" ".repeat(64), line(&lines, &file, new, false));
        assert_eq!(told, format!("[%a %h  %P %u] 0 0 [{checksum}]\n"));
        let lines = format("%8l|%-4l|%2o").expect("a format");
        assert_eq!(line(&lines, &file, new, false), "       5|5   |recv\n");
        let wide = format!("%{}", "0".repeat(24));
        let lines = format(&format!("{wide}%l")).expect("a format");
        assert_eq!(line(&lines, &file, new, false), format!("{wide}5\n"));
        let told = line(&format("%p %t").expect("a format"), &file, new, false);
        let (id, time) = told.split_once(' ').expect("two parts");
        assert_eq!(id, std::process::id().to_string());
        assert_eq!(time.len(), "2026/01/02 03:04:05\n".len());
        let told = line(&format("%B %U %G %M").expect("a format"), &file, new, false);
        assert!(told.starts_with("rwsr-xr-x 7 DEFAULT 197"), "{told}");
        assert_eq!(told.matches(['/', '-', ':']).count(), 7, "{told}");
        for unknown in ["%Q", "%", "%8", "%-"] {
            assert!(format(unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn bytes_above_those_of_ascii_can_be_printed_as_they_are() {
        let lines = Lines::new(1, 0, None).expect("a format");
        let attributes = Attributes::new(0o644, Timestamp { secs: 0, nanos: 0 });
        let listed = &Listed { attributes, is_device: false, hash: None };
        let fate = SyncFate::Synced(Changes::MODE);
        let kind = &Kind::Symlink { target: (*b"\xfb\n").into() };
        let line =
            Itemized { lines: &lines, path: b"a\xfc", kind, listed, fate, is_outgoing: false };
        assert_eq!(line.text(), b".L...p..... a\\#374 -> \\#373\\#012\n");
        assert_eq!(eight_bit(&line).text(), b".L...p..... a\xfc -> \xfb\\#012\n");
    }

    #[test]
    fn only_what_was_asked_for_is_reported() {
        let file = Kind::File { size: 5 };
        let tells = |itemize, verbose, kind: &Kind, found| {
            Lines::new(itemize, verbose, None)
                .expect("a format")
                .has_line(kind, SyncFate::Synced(found))
        };
        let new = Changes::MISSING.with(Changes::SENT);
        assert!(!tells(0, 0, &file, new));
        assert!(tells(0, 1, &file, new));
        assert!(!tells(0, 1, &file, Changes::MODE));
        assert!(tells(0, 1, &file, Changes::MODE.with(Changes::LOCAL)));
        assert!(!tells(0, 1, &file, Changes::LOCAL));
        assert!(tells(1, 0, &file, Changes::MODE));
        assert!(tells(0, 1, &Kind::Dir, Changes::TIME));
        assert!(!tells(1, 0, &file, Changes::default()));
        assert!(tells(2, 0, &file, Changes::default()));
        assert!(tells(1, 2, &file, Changes::default()));
    }

    #[test]
    fn names_are_escaped() {
        let kind = Kind::Symlink { target: b"\x1b"[..].into() };
        let time = Timestamp { secs: i64::MAX, nanos: 0 };
        let entry = Entry::new(None, kind, Attributes::new(0o777, time));
        let columns = Columns { readable: 1, targets: true, atimes: false };
        let line = listed_line(columns, b"a\n", &entry);
        let shown = format!("lrwxrwxrwx              1 @{} a\\#012 -> \\#033\n", i64::MAX);
        assert_eq!(line, shown);
    }
}
