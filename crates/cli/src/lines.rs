//! The lines by which `haul sync` tells of entries: those of rsync.

mod format;
mod listed;

use self::format::{Field, Part, parts};
pub(crate) use self::listed::{Columns, ListedLine};

use crate::error::CommandError;
use crate::json::{self, DeletedLine, DifferenceWord, Found, Line, Path, SyncedLine};
use crate::quantity;
use crate::report::{Report, Show, Statement};
use haul_engine::Links;
use haul_model::{
    Attributes, Backup, Changes, ContentHash, Kind, Mirror, escape_octal, escape_text,
    unescape_high,
};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// How entries are told of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// The parts of a line; without any nothing is told.
    parts: Vec<Part>,
    /// Entries are told of that only have other attributes now.
    itemizes: bool,
    /// Unchanged ones are told of, too.
    tells_unchanged: bool,
    /// Those that are removed are told of also where no others are.
    tells_removed: bool,
    /// Links that are left out since they lead out of the destination are told of.
    tells_unsafe: bool,
    /// Files that are skipped since the destination's are newer, or exist, are reported.
    tells_skipped: bool,
    /// Progress is printed without a terminal, too.
    tells_progress: bool,
    /// The destination is reported if it is created.
    tells_made: bool,
    /// Bytes above those of ASCII are printed as they are.
    eight_bit: bool,
    /// Backups are reported, which are these.
    backup: Option<Backup>,
    /// Copies get the times of their sources.
    keeps_times: bool,
    /// Links do, too.
    keeps_link_times: bool,
    /// How the entries of a list are told of.
    columns: Columns,
    /// The file that tells of the command, too.
    log: Option<Box<LogWish>>,
}

/// A file in which a command is told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogWish {
    /// Its path.
    pub(crate) path: OsString,
    /// The links that may lead to it.
    pub(crate) links: Links,
    /// How it tells of entries.
    pub(crate) lines: Lines,
}

/// Changes that are no reason to tell of an entry: it is what it was, in another place.
const UNTOLD: Changes = Changes::LOCAL.with(Changes::LINKED);

/// Columns of `%C`.
const CHECKSUM_COLUMNS: usize = 64;

/// The fate of an entry of a mirror.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SyncFate<'a> {
    /// It differed, or was missing, and is that of the source now.
    Synced(Changes),
    /// It differed like this, or was missing, and is a further name of the file at that
    /// path now; without one it was before.
    Linked(Changes, &'a [u8]),
    /// It was removed.
    Deleted,
}

/// A listed entry, as far as lines show it.
pub(crate) struct Listed {
    /// Attributes of the source; none for a removed entry. Owners only if they are kept.
    pub(crate) attributes: Attributes,
    /// It is a device, and neither a FIFO nor a socket.
    pub(crate) is_device: bool,
    /// The hash of its content, where that is shown and this side knows it.
    pub(crate) hash: Option<ContentHash>,
}

/// A line of which bytes above those of ASCII are printed as they are.
struct EightBit<'a>(&'a dyn Statement);

impl Statement for EightBit<'_> {
    fn text(&self) -> Vec<u8> {
        unescape_high(&self.0.text())
    }

    fn json(&self) -> Vec<u8> {
        self.0.json()
    }

    fn least(&self) -> Show {
        self.0.least()
    }
}

/// An entry of which a line tells.
pub(crate) struct Itemized<'a> {
    pub(crate) lines: &'a Lines,
    pub(crate) path: &'a [u8],
    pub(crate) kind: &'a Kind,
    pub(crate) listed: &'a Listed,
    pub(crate) fate: SyncFate<'a>,
    /// It goes to another machine.
    pub(crate) goes_out: bool,
}

/// Why an entry of that kind is left out of a mirror.
pub(crate) fn left_out(kind: &Kind) -> &'static str {
    match kind {
        Kind::Dir => "skipped: use -r for directories",
        Kind::Special => "skipped: use --specials for FIFOs and sockets, --devices for devices",
        Kind::Symlink { .. } => "skipped: use -l or -L for symbolic links",
        Kind::File { .. } => "skipped: a temporary file of haul",
    }
}

/// The line about a destination that was created with so many directories.
pub(crate) fn made(path: &[u8], dirs: u64, mirror: Option<&Mirror>) -> String {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(path.len(), |last| last + 1);
    let path = escape_octal(&path[..end]);
    match (mirror.is_some_and(|mirror| mirror.makes_path), dirs) {
        (false, _) => format!("created directory {path}\n"),
        (true, 1) => format!("created 1 directory for {path}\n"),
        (true, _) => format!("created {dirs} directories for {path}\n"),
    }
}

impl Lines {
    /// Those for so many words that ask for them, and a format of their own.
    ///
    /// # Errors
    /// When the format has an escape that is not known.
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
        let parts = parts("--out-format", format)?;
        let itemizes = parts.iter().any(|part| part.field == Field::Changes);
        let tells_unchanged = itemizes && (itemize > 1 || verbose > 1);
        let columns = Columns::default();
        Ok(Self {
            parts,
            itemizes,
            tells_unchanged,
            tells_removed: false,
            tells_unsafe: false,
            tells_skipped: false,
            tells_progress: false,
            tells_made: false,
            eight_bit: false,
            backup: None,
            keeps_times: true,
            keeps_link_times: true,
            columns,
            log: None,
        })
    }

    /// The same with a list of the sources in such columns, and nothing else.
    pub(crate) fn of_list(self, columns: Columns) -> Self {
        Self { columns, log: self.log, eight_bit: self.eight_bit, ..Self::default() }
    }

    /// The same, that tells of what is removed, or does not, where no other entries are told of.
    pub(crate) fn telling_removed(self, tells_removed: bool) -> Self {
        Self { tells_removed, ..self }
    }

    /// The same, that tells of links that lead out of the destination, or does not.
    pub(crate) fn telling_unsafe(self, tells_unsafe: bool) -> Self {
        Self { tells_unsafe, ..self }
    }

    /// The same, that reports files that are skipped for what the destination has, or does not.
    pub(crate) fn telling_skipped(self, tells_skipped: bool) -> Self {
        Self { tells_skipped, ..self }
    }

    /// The same, that reports these backups.
    pub(crate) fn telling_backups(self, backup: Option<Backup>) -> Self {
        Self { backup, ..self }
    }

    /// The same, that prints progress without a terminal, too, or does not.
    pub(crate) fn telling_progress(self, tells_progress: bool) -> Self {
        Self { tells_progress, ..self }
    }

    /// The same, that prints bytes above those of ASCII as they are, or does not.
    pub(crate) fn in_eight_bits(self, eight_bit: bool) -> Self {
        Self { eight_bit, ..self }
    }

    /// Prints a line on `report`.
    pub(crate) fn print(&self, line: &dyn Statement, report: &dyn Report) {
        match self.eight_bit {
            true => report.tell(&EightBit(line)),
            false => report.tell(line),
        }
    }

    /// The same, that reports a created destination, or does not unless it itemizes.
    pub(crate) fn telling_made(self, tells_made: bool) -> Self {
        Self { tells_made: tells_made || self.itemizes, ..self }
    }

    /// True if the destination is reported if it is created.
    pub(crate) fn tells_made(&self) -> bool {
        self.tells_made
    }

    /// True if progress is printed without a terminal, too.
    pub(crate) fn tells_progress(&self) -> bool {
        self.tells_progress
    }

    /// True if links that lead out of the destination are told of.
    pub(crate) fn tells_unsafe(&self) -> bool {
        self.tells_unsafe
    }

    /// True if files are reported that are skipped for what the destination has.
    pub(crate) fn tells_skipped(&self) -> bool {
        self.tells_skipped
    }

    /// True if lines report backups, and an entry with that fate got one. Directories get none.
    pub(crate) fn tell_backup(&self, kind: &Kind, fate: SyncFate<'_>) -> bool {
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

    /// The line about the backup of the entry at `path`.
    pub(crate) fn backup_line(&self, path: &[u8]) -> String {
        let Backup { dir, suffix } = self.backup.clone().unwrap_or_default();
        let dir = dir.map(|dir| [&*dir, b"/"].concat()).unwrap_or_default();
        let to = [&*dir, path, &*suffix].concat();
        format!("backed up {} to {}\n", escape_octal(path), escape_octal(&to))
    }

    /// The log alone.
    pub(crate) fn untold(self) -> Self {
        Self { columns: self.columns, log: self.log, ..Self::default() }
    }

    /// True if the format says itself what becomes of an entry.
    fn tells_fates(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.field, Field::Changes | Field::Operation))
    }

    /// The same with a log of its own format in the file `path`, to which only `links` may lead.
    ///
    /// # Errors
    /// When the format has an escape that is not known.
    pub(crate) fn with_log(
        self,
        path: Option<&OsStr>,
        links: Links,
        format: Option<&OsStr>,
    ) -> Result<Self, CommandError> {
        let format = format.unwrap_or(OsStr::new("%i %n%L"));
        let parts = parts("--log-file-format", format.as_bytes())?;
        let itemizes = parts.iter().any(|part| part.field == Field::Changes);
        let Self { keeps_times, keeps_link_times, columns, .. } = self;
        let lines =
            Self { parts, itemizes, keeps_times, keeps_link_times, columns, ..Self::default() };
        let log = path.map(|path| Box::new(LogWish { path: path.to_owned(), links, lines }));
        Ok(Self { log, ..self })
    }

    /// The file that tells of the command, too, if there is to be one.
    pub(crate) fn log(&self) -> Option<&LogWish> {
        self.log.as_deref()
    }

    /// True if a log tells of an entry with that fate: of what is made, sent, or removed, and
    /// of directories that only have other attributes now.
    pub(crate) fn is_logged(&self, kind: &Kind, fate: SyncFate<'_>) -> bool {
        match fate {
            _ if self.parts.is_empty() => false,
            SyncFate::Linked(_, first) => !first.is_empty(),
            SyncFate::Synced(found) => {
                let is_new = found.has(Changes::SENT) || found.has(Changes::MISSING);
                is_new || *kind == Kind::Dir && !found.without(UNTOLD).is_empty()
            }
            SyncFate::Deleted => true,
        }
    }

    /// True if there are lines about entries.
    pub(crate) fn has_any(&self) -> bool {
        let tells_some = self.tells_unsafe || self.tells_skipped || self.backup.is_some();
        tells_some || !self.parts.is_empty()
    }

    /// True if lines have attributes of their entries.
    pub(crate) fn wants_attributes(&self) -> bool {
        let is_one =
            |field: &Field| matches!(field, Field::Mode | Field::Time | Field::User | Field::Group);
        self.parts.iter().any(|part| is_one(&part.field))
    }

    /// True if lines have hashes of their entries.
    pub(crate) fn wants_hashes(&self) -> bool {
        self.parts.iter().any(|part| part.field == Field::Checksum)
    }

    /// The columns of a list.
    pub(crate) fn columns(&self) -> Columns {
        self.columns
    }

    /// The same for a mirror that keeps times, those of links, too, or does not.
    pub(crate) fn keeping_times(self, keeps_times: bool, keeps_link_times: bool) -> Self {
        Self { keeps_times, keeps_link_times, ..self }
    }

    /// True if an entry with that fate is told of.
    pub(crate) fn tell(&self, kind: &Kind, fate: SyncFate<'_>) -> bool {
        match fate {
            SyncFate::Deleted => self.tells_removed || !self.parts.is_empty(),
            _ if self.parts.is_empty() => false,
            SyncFate::Linked(_, []) => self.tells_unchanged,
            SyncFate::Linked(..) => true,
            SyncFate::Synced(found) if found.without(UNTOLD).is_empty() => self.tells_unchanged,
            SyncFate::Synced(found) => {
                let is_new = found.has(Changes::SENT) || found.has(Changes::MISSING);
                self.itemizes || is_new || *kind == Kind::Dir
            }
        }
    }
}

impl Itemized<'_> {
    /// The eleven letters of rsync's `%i`.
    fn changes(&self) -> String {
        let (found, is_linked) = match self.fate {
            SyncFate::Synced(found) => (found, false),
            // As with rsync, the content or target that the name had before is not told.
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
            _ if is_linked => 'h',
            _ if found.has(Changes::LOCAL.with(Changes::LINKED)) => 'h',
            _ if found.has(Changes::LOCAL) => 'c',
            (true, true) if self.goes_out => '<',
            (true, true) => '>',
            (true, false) => 'c',
            (false, _) if found.has(Changes::MISSING) => 'c',
            (false, _) => '.',
        };
        if found.has(Changes::MISSING) || found.has(Changes::KIND) {
            return format!("{update}{kind}+++++++++");
        }
        // A name that becomes another of the file has that one's time.
        let is_given_time =
            is_file && !self.lines.keeps_times && matches!(self.fate, SyncFate::Linked(_, [_, ..]));
        if found.without(UNTOLD).is_empty() && !is_given_time {
            return format!("{update}{kind}         ");
        }
        let letter = |change: Changes, letter: char| if found.has(change) { letter } else { '.' };
        let content = if is_file { Changes::CONTENT } else { Changes::TARGET };
        let is_link = matches!(self.kind, Kind::Symlink { .. });
        let is_anew = !is_file && found.has(content);
        let is_made = sent || is_linked || found.has(Changes::LOCAL);
        let time = match is_made && is_file || is_anew {
            true if !self.lines.keeps_times => 'T',
            true if is_link && !self.lines.keeps_link_times => 't',
            _ => letter(Changes::TIME, 't'),
        };
        format!(
            "{update}{kind}{}{}{time}{}{}{}{}{}{}",
            letter(content, 'c'),
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
}

impl Itemized<'_> {
    /// The value of a part of the format.
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
            Field::Operation => match (is_deleted, self.goes_out) {
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

impl Statement for Itemized<'_> {
    fn text(&self) -> Vec<u8> {
        let is_deleted = matches!(self.fate, SyncFate::Deleted);
        let mut line = Vec::new();
        if is_deleted && !self.lines.tells_fates() {
            line.extend(format!("deleting {}\n", self.name(true)).as_bytes());
            return line;
        }
        for part in &self.lines.parts {
            line.extend(part.padded(self.field(&part.field)).as_bytes());
        }
        line.push(b'\n');
        line
    }

    fn json(&self) -> Vec<u8> {
        let (path, kind, size) = (Path::of(self.path), self.kind.into(), json::size(self.kind));
        let (found, first) = match self.fate {
            SyncFate::Synced(found) => (found, None),
            SyncFate::Linked(found, first) => {
                (found, Some(first).filter(|first| !first.is_empty()))
            }
            SyncFate::Deleted => return Line::Deleted(DeletedLine { path, kind }).to_bytes(),
        };
        let linked_to = first.map(String::from_utf8_lossy);
        let (sent, differed) =
            (found.has(Changes::SENT), DifferenceWord::all_of(Found::Differs(found)));
        Line::Synced(SyncedLine { path, kind, size, sent, differed, linked_to }).to_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::Timestamp;

    fn line(lines: &Lines, kind: &Kind, fate: SyncFate<'_>, goes_out: bool) -> String {
        let time = Timestamp { secs: 86_400 * 365, nanos: 0 };
        let attributes = Attributes { user: Some(7), ..Attributes::new(0o4755, time) };
        let listed = &Listed { attributes, is_device: true, hash: None };
        let told = Itemized { lines, path: b"a/b\n", kind, listed, fate, goes_out };
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
        let lines = Lines::new(1, 0, None).expect("a format").keeping_times(false, false);
        let (file, fate) = (Kind::File { size: 5 }, SyncFate::Linked(Changes::default(), b"x"));
        assert_eq!(line(&lines, &file, fate, false), "hf..T...... a/b\\#012 => x\n");
        let before = SyncFate::Linked(Changes::default(), b"");
        assert_eq!(line(&lines, &file, before, false), "hf          a/b\\#012\n");
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
        let line = Itemized { lines: &lines, path: b"a\xfc", kind, listed, fate, goes_out: false };
        assert_eq!(line.text(), b".L...p..... a\\#374 -> \\#373\\#012\n");
        assert_eq!(EightBit(&line).text(), b".L...p..... a\xfc -> \xfb\\#012\n");
    }

    #[test]
    fn only_what_was_asked_for_is_told() {
        let file = Kind::File { size: 5 };
        let tells = |itemize, verbose, kind: &Kind, found| {
            Lines::new(itemize, verbose, None)
                .expect("a format")
                .tell(kind, SyncFate::Synced(found))
        };
        let new = Changes::MISSING.with(Changes::SENT);
        assert!(!tells(0, 0, &file, new));
        assert!(tells(0, 1, &file, new));
        assert!(!tells(0, 1, &file, Changes::MODE));
        assert!(tells(1, 0, &file, Changes::MODE));
        assert!(tells(0, 1, &Kind::Dir, Changes::TIME));
        assert!(!tells(1, 0, &file, Changes::default()));
        assert!(tells(2, 0, &file, Changes::default()));
        assert!(tells(1, 2, &file, Changes::default()));
    }
}
