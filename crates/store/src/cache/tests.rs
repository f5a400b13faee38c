//! The cache on real files: what it knows, and what damages, other processes and its bound do
//! to it.

use super::*;
use std::fs;
use std::io::{Seek, SeekFrom};
use std::path::PathBuf;
use tempfile::TempDir;

fn keep(cache: &Cache, file: &File) -> io::Result<Option<(Name, File)>> {
    cache.keeper()?.map_or(Ok(None), |keeper| keeper.keep(file))
}

/// A cache and files that it may know.
struct Fixture {
    files: TempDir,
    cache: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let new = || TempDir::new().expect("a directory");
        Self { files: new(), cache: new() }
    }

    fn dir(&self) -> Dir {
        Dir::open(self.cache.path()).expect("it is there")
    }

    fn open(&self) -> Cache {
        Cache::open(self.dir(), 0, |_| true).expect("it opens")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Writes a file and tells the cache that it has one chunk.
    fn publish(&self, cache: &mut Cache, name: &str, content: &[u8]) -> [u8; 32] {
        fs::write(self.path(name), content).expect("written");
        let hash = *blake3::hash(content).as_bytes();
        let path = self.path(name);
        let chunk = (0, content.len() as u32, short(&hash));
        cache.add(path.as_os_str().as_encoded_bytes(), [chunk]);
        hash
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache.path()).expect("it is there");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.to_string_lossy().contains("index-")).collect()
    }
}

/// The content of the chunk, if a file of the cache has it.
fn content(cache: &mut Cache, hash: &[u8; 32]) -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    cache.find(hash).iter().find_map(|place| {
        let file = cache.open_file(place.file())?;
        let mut part = vec![0; place.len as usize];
        file.read_exact_at(&mut part, place.at).ok()?;
        (blake3::hash(&part) == *hash).then_some(part)
    })
}

#[test]
fn a_directory_among_the_segments_breaks_nothing() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.cache.path().join("index-x")).expect("made");
    let mut cache = fixture.open();
    let hash = fixture.publish(&mut cache, "a", b"one");
    cache.flush().expect("written");
    let mut cache = fixture.open();
    fixture.publish(&mut cache, "b", b"two");
    cache.flush().expect("written");
    let checked = fixture.open().verify().expect("verified");
    assert_eq!(checked, CheckedChunks { good: 2, dropped: 0 });
    assert!(!fixture.open().find(&hash).is_empty());
    Cache::clear(&fixture.dir()).expect("cleared");
    assert!(fixture.open().find(&hash).is_empty());
}

#[test]
fn chunks_are_found_by_this_process_and_the_next() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    let hash = fixture.publish(&mut cache, "a", b"content");
    assert_eq!(content(&mut cache, &hash).as_deref(), Some(&b"content"[..]));
    cache.count_saved(Saved { parts: 3, bytes: 30 });
    cache.flush().expect("written");
    let mut again = fixture.open();
    assert_eq!(content(&mut again, &hash).as_deref(), Some(&b"content"[..]));
    let figures = again.figures().expect("figures");
    assert_eq!((figures.chunks, figures.bytes, figures.files), (1, 7, 1));
    assert_eq!(figures.saved, Saved { parts: 3, bytes: 30 });
    assert_eq!(content(&mut again, &[9; 32]), None);
}

#[test]
fn a_file_that_changed_or_is_gone_is_dropped() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    let changed = fixture.publish(&mut cache, "changed", b"before");
    let gone = fixture.publish(&mut cache, "gone", b"going");
    let replaced = fixture.publish(&mut cache, "replaced", b"old");
    let new = fixture.publish(&mut cache, "replaced", b"new");
    fs::write(fixture.path("changed"), b"behind!").expect("written");
    fs::remove_file(fixture.path("gone")).expect("removed");
    for hash in [changed, gone, replaced] {
        assert_eq!(content(&mut cache, &hash), None);
        assert!(cache.find(&hash).is_empty(), "it is dropped");
    }
    assert_eq!(content(&mut cache, &new).as_deref(), Some(&b"new"[..]));
}

#[test]
fn segments_become_one() {
    let fixture = Fixture::new();
    let mut hashes = Vec::new();
    for number in 0..30_u8 {
        let mut cache = fixture.open();
        hashes.push(fixture.publish(&mut cache, &format!("{number}"), &[number; 100]));
        cache.count_saved(Saved { parts: 1, bytes: 100 });
        cache.flush().expect("written");
        assert!(fixture.segments().len() <= 9);
    }
    let mut cache = fixture.open();
    assert!(hashes.iter().all(|hash| content(&mut cache, hash).is_some()));
    assert_eq!(cache.figures().expect("figures").saved, Saved { parts: 30, bytes: 3000 });
}

#[test]
fn a_damaged_segment_is_removed() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    let first = fixture.publish(&mut cache, "a", b"first");
    cache.flush().expect("written");
    let second = fixture.publish(&mut cache, "b", b"second");
    cache.flush().expect("written");
    let mut segments = fixture.segments();
    segments.sort();
    let whole = fs::read(&segments[1]).expect("read");
    for damaged in [&whole[..0], &whole[..whole.len() - 1], &[&whole[..], b"x"].concat()] {
        fs::write(&segments[1], damaged).expect("written");
        let mut cache = fixture.open();
        assert!(content(&mut cache, &first).is_some());
        assert!(content(&mut cache, &second).is_none());
        assert_eq!(fixture.segments(), segments[..1]);
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&segments[1], damaged).expect("written");
        assert!(fixture.open().find(&second).is_empty(), "byte {at}");
    }
}

#[test]
fn several_at_once_lose_nothing() {
    let fixture = Fixture::new();
    let hashes: Vec<_> = std::thread::scope(|scope| {
        let begin = |number: u8| {
            let fixture = &fixture;
            scope.spawn(move || {
                (0..10_u8)
                    .map(|turn| {
                        let mut cache = fixture.open();
                        let name = format!("{number}-{turn}");
                        let hash = fixture.publish(&mut cache, &name, name.as_bytes());
                        cache.flush().expect("written");
                        hash
                    })
                    .collect::<Vec<_>>()
            })
        };
        // With more threads, a loaded machine could let one wait longer than `LOCK_MAX`.
        let threads: Vec<_> = (0..4).map(begin).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut cache = fixture.open();
    let found = hashes.iter().filter(|hash| content(&mut cache, hash).is_some()).count();
    assert_eq!(found, 40);
}

#[test]
fn the_store_keeps_to_its_bound_and_the_newest_stay() {
    let fixture = Fixture::new();
    let mut cache = Cache::open(fixture.dir(), 32 << 10, |_| true).expect("it opens");
    let mut hashes = Vec::new();
    for number in 1..=3_u8 {
        let content = vec![number; 24 << 10];
        let path = fixture.path("lost");
        fs::write(&path, &content).expect("written");
        let original = File::open(&path).expect("opened");
        let (name, copy) = keep(&cache, &original).expect("kept").expect("there is room");
        let hash = *blake3::hash(&content).as_bytes();
        cache.add_kept((&name, &copy), [(0, 24 << 10, short(&hash))]);
        hashes.push(hash);
        assert!(cache.figures().expect("figures").kept_len <= 32 << 10);
        fs::remove_file(&path).expect("removed");
    }
    assert_eq!(content(&mut cache, &hashes[0]), None);
    assert_eq!(content(&mut cache, &hashes[1]), None);
    assert!(content(&mut cache, &hashes[2]).is_some());
    let large = fixture.path("large");
    fs::write(&large, vec![0; (32 << 10) + 1]).expect("written");
    assert!(keep(&cache, &File::open(&large).expect("opened")).expect("no error").is_none());
    cache.flush().expect("written");
    // Without a bound nothing is added, and what is there is of use.
    let mut again = fixture.open();
    assert!(content(&mut again, &hashes[2]).is_some());
    assert!(keep(&again, &File::open(&large).expect("opened")).expect("no error").is_none());
    record_destination(&fixture.dir(), b"/dst").expect("noted");
    Cache::clear(&fixture.dir()).expect("cleared");
    assert!(destinations(&fixture.dir()).is_empty());
    let figures = fixture.open().figures().expect("figures");
    assert_eq!((figures.chunks, figures.kept_len, figures.index_len), (0, 0, 0));
}

#[test]
fn a_used_file_stays_longer() {
    let fixture = Fixture::new();
    let mut cache = Cache::open(fixture.dir(), 3000, |_| true).expect("it opens");
    let mut kept = |number: u8| {
        let path = fixture.path("lost");
        fs::write(&path, [number; 1000]).expect("written");
        let file = File::open(&path).expect("opened");
        let (name, copy) = keep(&cache, &file).expect("kept").expect("there is room");
        let hash = *blake3::hash(&[number; 1000]).as_bytes();
        cache.add_kept((&name, &copy), [(0, 1000, short(&hash))]);
        hash
    };
    let (first, second) = (kept(1), kept(2));
    kept(3);
    // They were kept long ago, in this order.
    for entry in fs::read_dir(fixture.cache.path().join("kept")).expect("there") {
        let file = File::open(entry.expect("an entry").path()).expect("opened");
        let mut number = [0];
        (&file).read_exact(&mut number).expect("read");
        let at = std::time::UNIX_EPOCH + Duration::from_secs(number[0].into());
        file.set_times(fs::FileTimes::new().set_accessed(at)).expect("set");
    }
    // Reading it could set the time, too.
    let number = cache.find(&first)[0].file();
    cache.open_file(number).expect("it is there");
    let path = fixture.path("lost");
    fs::write(&path, [4; 1000]).expect("written");
    keep(&cache, &File::open(&path).expect("opened")).expect("kept").expect("there is room");
    assert!(content(&mut cache, &first).is_some(), "it was used");
    assert!(content(&mut cache, &second).is_none());
}

#[test]
fn checking_the_cache_uses_no_kept_file() {
    let fixture = Fixture::new();
    let mut cache = Cache::open(fixture.dir(), 2000, |_| true).expect("it opens");
    let path = fixture.path("lost");
    let hashes = [1, 2].map(|number: u8| {
        fs::write(&path, [number; 1000]).expect("written");
        let file = File::open(&path).expect("opened");
        let (name, copy) = keep(&cache, &file).expect("kept").expect("there is room");
        let hash = *blake3::hash(&[number; 1000]).as_bytes();
        cache.add_kept((&name, &copy), [(0, 1000, short(&hash))]);
        hash
    });
    cache.flush().expect("written");
    let open = || Cache::open(fixture.dir(), 2000, |_| true).expect("it opens");
    assert_eq!(open().verify().expect("checked").good, 2);
    let mut cache = open();
    fs::write(&path, [3; 1000]).expect("written");
    keep(&cache, &File::open(&path).expect("opened")).expect("kept").expect("there is room");
    assert!(content(&mut cache, &hashes[0]).is_none(), "the oldest is removed first");
    assert!(content(&mut cache, &hashes[1]).is_some());
}

#[test]
fn a_lower_bound_holds_from_the_next_file_on() {
    let fixture = Fixture::new();
    let path = fixture.path("lost");
    let keep_one = |max: u64, len: usize| {
        fs::write(&path, vec![1; len]).expect("written");
        let cache = Cache::open(fixture.dir(), max, |_| true).expect("it opens");
        let kept = keep(&cache, &File::open(&path).expect("opened")).expect("no error");
        (kept.is_some(), cache.figures().expect("figures").kept_len)
    };
    assert_eq!(keep_one(3000, 1500), (true, 1500));
    assert_eq!(keep_one(3000, 1500), (true, 3000));
    // This one is too long, and those before are too many by now.
    assert_eq!(keep_one(2000, 2500), (false, 1500));
}

#[cfg(target_os = "linux")]
#[test]
fn kept_files_make_way_on_a_full_file_system() {
    const MIB: u64 = 1 << 20;
    let Some(mount) = haul_testkit::Mount::tmpfs(1080 * MIB) else { return };
    let dir = Dir::open(mount.path()).expect("it is there");
    let cache = Cache::open(dir, u64::MAX, |_| true).expect("it opens");
    let kept_len = || cache.figures().expect("figures").kept_len;
    let lost = TempDir::new().expect("a directory");
    let lost = File::create_new(lost.path().join("lost")).expect("made");
    let keep_one = |len: u64| {
        (&lost).seek(SeekFrom::Start(0)).expect("sought");
        (&lost).write_all(&vec![1; len as usize]).expect("written");
        lost.set_len(len).expect("set");
        let is_kept = keep(&cache, &lost).expect("no error").is_some();
        (is_kept, kept_len() / MIB)
    };
    assert_eq!(keep_one(24 * MIB), (true, 24));
    assert_eq!(keep_one(24 * MIB), (true, 48));
    // There is room for one of them beside it.
    assert_eq!(keep_one(25 * MIB), (true, 49));
    // What does not fit even so makes nothing go.
    lost.set_len(1 << 40).expect("set");
    assert!(keep(&cache, &lost).expect("no error").is_none());
    assert_eq!(kept_len(), 49 * MIB);
    // Others fill the file system.
    fs::write(mount.path().join("full"), vec![0; 20 * MIB as usize]).expect("written");
    assert_eq!(keep_one(60 * MIB), (false, 25));
}

#[test]
fn a_file_that_is_copied_holds_up_no_writer_of_the_index() {
    let fixture = Fixture::new();
    let _kept = lock(&fixture.dir(), KEPT_LOCK).expect("no error").expect("it is free");
    let mut cache = fixture.open();
    let hash = fixture.publish(&mut cache, "a", b"content");
    cache.flush().expect("written");
    assert!(!fixture.open().find(&hash).is_empty());
    let error = Cache::clear(&fixture.dir()).expect_err("it is in use");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn files_that_are_gone_leave_the_index_on_disk() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    know(&fixture.files, &mut cache, 100, 1);
    cache.flush().expect("written");
    for file in 0..80 {
        fs::remove_file(fixture.path(&format!("{file:0100}"))).expect("removed");
    }
    let mut cache = fixture.open();
    for file in 0..100 {
        let places = cache.find(&made_up(file));
        let is_open = cache.open_file(places[0].file()).is_some();
        assert_eq!(is_open, file >= 80);
    }
    // One that was read, and is not what the index says.
    cache.forget(cache.find(&made_up(99))[0].file());
    // What another process has written meanwhile stays.
    let mut other = fixture.open();
    fs::write(fixture.path("new"), "new").expect("written");
    let path = fixture.path("new");
    other.add(path.as_os_str().as_encoded_bytes(), [(0, 3, short(&made_up(1000)))]);
    other.flush().expect("written");
    cache.flush().expect("written");
    let again = fixture.open();
    assert_eq!(again.figures().expect("figures").files, 20);
    assert!(again.find(&made_up(0)).is_empty() && !again.find(&made_up(1000)).is_empty());
    assert!(again.find(&made_up(99)).is_empty() && !again.find(&made_up(98)).is_empty());
    // It may come back.
    let mut other = fixture.open();
    let path = fixture.path(&format!("{:0100}", 0));
    fs::write(&path, "x").expect("written");
    other.add(path.as_os_str().as_encoded_bytes(), [(0, 1, short(&made_up(0)))]);
    other.flush().expect("written");
    assert!(!fixture.open().find(&made_up(0)).is_empty());
}

#[test]
fn segments_that_cannot_be_merged_are_of_use() {
    let fixture = Fixture::new();
    let hashes = [0; 8].map(|_: u8| {
        let mut cache = fixture.open();
        let name = fixture.segments().len().to_string();
        let hash = fixture.publish(&mut cache, &name, name.as_bytes());
        cache.flush().expect("written");
        hash
    });
    // What a merge writes has no room, also for root.
    fs::create_dir(fixture.cache.path().join("index.new")).expect("made");
    let mut cache = fixture.open();
    assert!(hashes.iter().all(|hash| content(&mut cache, hash).is_some()));
    assert_eq!(fixture.segments().len(), 8);
}

#[test]
fn what_a_job_cannot_open_hides_nothing() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    let hash = fixture.publish(&mut cache, "here", b"content");
    for number in 0..20 {
        fixture.publish(&mut cache, &format!("away-{number}"), b"content");
    }
    cache.flush().expect("written");
    let is_here = |path: &[u8]| path.ends_with(b"here");
    let mut cache = Cache::open(fixture.dir(), 0, is_here).expect("it opens");
    assert_eq!(cache.find(&hash).len(), 1);
    assert!(content(&mut cache, &hash).is_some());
    // Nothing of them is lost.
    cache.flush().expect("written");
    assert_eq!(fixture.open().figures().expect("figures").files, 21);
}

#[test]
fn no_destination_is_lost_by_others() {
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        for job in 0..8 {
            let dir = fixture.dir();
            scope.spawn(move || record_destination(&dir, format!("/{job}").as_bytes()));
        }
    });
    assert_eq!(destinations(&fixture.dir()).len(), 8);
}

/// The hash of a chunk that is made up.
fn made_up(number: u64) -> [u8; 32] {
    *blake3::hash(&number.to_le_bytes()).as_bytes()
}

/// Lets the cache know so many files, each with `each` chunks of 64 KiB.
fn know(dir: &TempDir, cache: &mut Cache, files: u64, each: u64) {
    for file in 0..files {
        let path = dir.path().join(format!("{file:0100}"));
        fs::write(&path, b"x").expect("written");
        let chunk = |at| (at * CHUNK_LEN, CHUNK_LEN as u32, short(&made_up(file * each + at)));
        cache.add(path.as_os_str().as_encoded_bytes(), (0..each).map(chunk));
    }
    cache.flush().expect("written");
}

/// The length of an average chunk.
const CHUNK_LEN: u64 = 64 << 10;

#[test]
fn the_index_of_10_gib_takes_at_most_8_mib() {
    // One file, files of 1 MiB, and what is between.
    for files in [1, 8, 640, 10_240] {
        let fixture = Fixture::new();
        let mut cache = fixture.open();
        know(&fixture.files, &mut cache, files, (10 << 30) / CHUNK_LEN / files);
        let figures = fixture.open().figures().expect("figures");
        let known = figures.bytes >> 30;
        // One file has no more than what is learned at once.
        assert_eq!(known, if files == 1 { 8 } else { 10 });
        assert!(figures.index_len <= 8 << 20, "{} bytes of {files} files", figures.index_len);
    }
}

/// By the time of this thread: the machine may be busy.
#[cfg(target_os = "linux")]
#[test]
fn a_million_chunks_are_looked_up_within_two_seconds() {
    let took = || {
        let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("it is there");
        let nanos = stat.split(' ').next().and_then(|text| text.parse().ok());
        Duration::from_nanos(nanos.expect("a number"))
    };
    let fixture = Fixture::new();
    know(&fixture.files, &mut fixture.open(), 8, 20_480);
    let cache = fixture.open();
    let hashes: Vec<_> = (0..1_000_000).map(made_up).collect();
    let begin = took();
    let found = hashes.iter().filter(|hash| !cache.find(hash).is_empty()).count();
    assert_eq!(found, 8 * 20_480);
    let took = took() - begin;
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// A process of its own: the peak is of all that it did.
#[cfg(target_os = "linux")]
#[test]
fn a_full_index_takes_at_most_32_mib_of_memory() {
    const DIR: &str = "HAUL_TEST_INDEX";
    let peak = || {
        let status = fs::read_to_string("/proc/self/status").expect("it is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    };
    if let Some(dir) = std::env::var_os(DIR) {
        let before = peak();
        let mut cache = Cache::open(Dir::open(Path::new(&dir)).expect("it is there"), 0, |_| true)
            .expect("it opens");
        let loaded = peak() - before;
        // So many that all of it becomes one segment.
        know(&TempDir::new().expect("a directory"), &mut cache, 18_000, 16);
        let all = peak() - before;
        println!("{loaded} bytes, then {all}");
        assert!(loaded.max(all) <= 32 << 20, "{loaded} bytes, then {all}");
        return;
    }
    let fixture = Fixture::new();
    know(&fixture.files, &mut fixture.open(), 32_768, 16);
    let this = "cache::tests::a_full_index_takes_at_most_32_mib_of_memory";
    let run = std::process::Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", this, "--nocapture"])
        .env(DIR, fixture.cache.path())
        .output()
        .expect("it runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn the_oldest_make_way_where_there_are_too_many() {
    let fixture = Fixture::new();
    // Each file has so many chunks that some 40 of them fill the index.
    let chunks = |file: u64| {
        (0..12_800_u64)
            .map(move |n| (n, 1, short(blake3::hash(&(file << 32 | n).to_le_bytes()).as_bytes())))
    };
    let known = |cache: &Cache, file: u64| {
        !cache.find(blake3::hash(&(file << 32).to_le_bytes()).as_bytes()).is_empty()
    };
    for file in 0..60 {
        let mut cache = fixture.open();
        let name = format!("{file}");
        fs::write(fixture.path(&name), b"x").expect("written");
        cache.add(fixture.path(&name).as_os_str().as_encoded_bytes(), chunks(file));
        cache.flush().expect("written");
    }
    let cache = fixture.open();
    let all: Vec<_> = (0..60).filter(|file| known(&cache, *file)).collect();
    let first = *all.first().expect("some are known");
    assert_eq!(all, (first..60).collect::<Vec<_>>(), "all but the oldest");
    assert!((18..=30).contains(&first), "{first}");
}

#[test]
fn long_paths_make_way_for_newer_ones() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    let dir = fixture.path(&"d".repeat(200)).join("e".repeat(200)).join("f".repeat(200));
    fs::create_dir_all(&dir).expect("made");
    let path = |file: u64| dir.join(format!("{file:0200}"));
    let hash = |file: u64| *blake3::hash(&file.to_le_bytes()).as_bytes();
    let add = |cache: &mut Cache, file: u64| {
        fs::write(path(file), b"x").expect("written");
        cache.add(path(file).as_os_str().as_encoded_bytes(), [(0, 1, short(&hash(file)))]);
    };
    let many = (6 << 20) / (64 + path(0).as_os_str().len() as u64);
    (0..many).for_each(|file| add(&mut cache, file));
    cache.flush().expect("written");
    let mut cache = fixture.open();
    (many..many + 100).for_each(|file| add(&mut cache, file));
    cache.flush().expect("written");
    let cache = fixture.open();
    let known = |file: u64| !cache.find(&hash(file)).is_empty();
    assert!((many..many + 100).all(known), "the new ones");
    assert!(!known(0) && known(many - 1), "the oldest have made way");
}

#[test]
fn a_path_without_room_takes_no_number() {
    let fixture = Fixture::new();
    let mut index = Index::load(&fixture.dir(), |_| true).expect("it is empty");
    fs::write(fixture.path("any"), b"x").expect("written");
    let file = File::open(fixture.path("any")).expect("opened");
    let identity = Identity::of(&haul_sys::file_stat(&file).expect("known"));
    let mut add = |path: &[u8], number: u64| {
        let hash = *blake3::hash(&number.to_le_bytes()).as_bytes();
        index.add(path, identity, [(0, 1, short(&hash))]);
        index.find(&hash).len()
    };
    assert_eq!(add(&vec![b'/'; (6 << 20) - 64 - 70], 1), 1);
    assert_eq!(add(b"/too long now", 2), 0);
    assert_eq!(add(b"/short", 3), 1);
    // It must not drop another file for its own.
    assert_eq!(add(b"/too long now", 4), 0);
    let short = *blake3::hash(&3_u64.to_le_bytes()).as_bytes();
    assert_eq!(index.find(&short).len(), 1);
}

#[test]
fn a_chunk_that_is_in_many_places_is_looked_up_as_fast() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    let zeros = made_up(0);
    for file in 0..20 {
        let path = fixture.path(&format!("{file}"));
        fs::write(&path, b"x").expect("written");
        let chunks = (0..100_000).map(|at| (at * CHUNK_LEN, CHUNK_LEN as u32, short(&zeros)));
        cache.add(path.as_os_str().as_encoded_bytes(), chunks);
    }
    assert_eq!(cache.figures().expect("figures").chunks, 20);
    cache.flush().expect("written");
    for cache in [cache, fixture.open()] {
        let found = cache.find(&zeros).len();
        assert!((1..=8).contains(&found), "{found}");
    }
}

#[test]
fn a_chunk_is_read_up_to_the_greatest_length() {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(u64::from(CHUNK_LEN_MAX) + 2).expect("longer");
    for (len, is_read) in [(1, true), (CHUNK_LEN_MAX, true), (CHUNK_LEN_MAX + 1, false)] {
        let place = Place { file: 0, at: 1, len };
        let mut content = Vec::new();
        let hash = place.read(&file, &mut content);
        let expected = is_read.then(|| *blake3::hash(&vec![0; len as usize]).as_bytes());
        assert_eq!(hash, expected, "{len}");
    }
}

#[test]
fn new_chunks_are_written_when_there_are_many() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    fs::write(fixture.path("a"), b"x").expect("written");
    let path = fixture.path("a");
    let mut add = |count: usize| {
        let chunks = (0..count as u64).map(|n| (n, 1, n));
        cache.add(path.as_os_str().as_encoded_bytes(), chunks);
        fixture.segments().len()
    };
    assert_eq!(add(1), 0);
    assert_eq!(add(FLUSH_CHUNKS_MIN - 2), 0);
    assert_eq!(add(FLUSH_CHUNKS_MIN), 1);
}

#[test]
fn nothing_is_kept_without_a_bound_or_after_a_failure() {
    let fixture = Fixture::new();
    for (max, is_disabled, keeps) in
        [(0, false, false), (0, true, false), (9, true, false), (9, false, true)]
    {
        let mut cache = Cache::open(fixture.dir(), max, |_| true).expect("it opens");
        cache.is_disabled = is_disabled;
        let keeper = cache.keeper().expect("no error");
        assert_eq!(keeper.is_some(), keeps, "{max} {is_disabled}");
    }
}

#[test]
fn a_check_counts_the_chunks_that_are_good_and_those_that_are_not() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    for (name, first) in [("good", 0), ("changed", 2), ("gone", 4)] {
        fs::write(fixture.path(name), [first, first + 1]).expect("written");
        let chunk = |at: u8| (u64::from(at), 1, short(blake3::hash(&[first + at]).as_bytes()));
        let path = fixture.path(name);
        cache.add(path.as_os_str().as_encoded_bytes(), [0, 1].map(chunk));
    }
    cache.flush().expect("written");
    // Only the content differs.
    let changed = File::options().write(true).open(fixture.path("changed")).expect("opened");
    let stat = haul_sys::file_stat(&changed).expect("known");
    (&changed).write_all(&[9]).expect("written");
    haul_sys::set_mtime(&changed, stat.mtime).expect("set");
    fs::remove_file(fixture.path("gone")).expect("removed");
    let checked = fixture.open().verify().expect("checked");
    assert_eq!(checked, CheckedChunks { good: 2, dropped: 4 });
    let checked = fixture.open().verify().expect("checked");
    assert_eq!(checked, CheckedChunks { good: 2, dropped: 0 });
}

#[test]
fn a_lock_that_cannot_be_opened_is_an_error_and_not_busy() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.cache.path().join("x")).expect("made");
    lock(&fixture.dir(), "x").expect_err("it is a directory");
}

#[test]
fn a_long_file_makes_several_short_ones_go() {
    let fixture = Fixture::new();
    let cache = Cache::open(fixture.dir(), 3000, |_| true).expect("it opens");
    for (len, kept_len) in [(1000, 1000), (1000, 2000), (1000, 3000), (2000, 3000)] {
        fs::write(fixture.path("lost"), vec![1; len]).expect("written");
        let lost = File::open(fixture.path("lost")).expect("opened");
        assert!(keep(&cache, &lost).expect("no error").is_some());
        assert_eq!(cache.figures().expect("figures").kept_len, kept_len);
    }
}

#[test]
fn a_job_writes_only_what_is_new() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    let len_on_disk = || -> u64 {
        fixture.segments().iter().map(|path| fs::metadata(path).expect("there").len()).sum()
    };
    for (saves, segments) in [(false, 0), (true, 1), (false, 1)] {
        if saves {
            cache.count_saved(Saved { parts: 1, bytes: 2 });
        }
        cache.flush().expect("written");
        assert_eq!(fixture.segments().len(), segments);
        assert_eq!(cache.figures().expect("figures").index_len, len_on_disk());
    }
    // A file that came and went within the job is not listed.
    let before = len_on_disk();
    fixture.publish(&mut cache, "a", b"content");
    cache.forget(0);
    cache.flush().expect("written");
    assert_eq!(cache.figures().expect("figures").index_len, 2 * before);
}

#[test]
fn chunks_are_found_after_they_were_written_beside_many() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    know(&fixture.files, &mut cache, 1, 1000);
    let mut cache = fixture.open();
    fs::write(fixture.path("new"), b"x").expect("written");
    let chunks = (1000..2000).map(|n| (n, 1, short(&made_up(n))));
    cache.add(fixture.path("new").as_os_str().as_encoded_bytes(), chunks);
    cache.flush().expect("written");
    assert!((0..2000).all(|n| !cache.find(&made_up(n)).is_empty()));
}

#[test]
fn the_newest_segment_of_a_path_hides_the_others() {
    let fixture = Fixture::new();
    let mut cache = fixture.open();
    let old = fixture.publish(&mut cache, "a", b"old");
    cache.flush().expect("written");
    let mut cache = fixture.open();
    let new = fixture.publish(&mut cache, "a", b"new");
    cache.flush().expect("written");
    assert_eq!(fixture.segments().len(), 2);
    let cache = fixture.open();
    assert!(cache.find(&old).is_empty() && !cache.find(&new).is_empty());
    assert_eq!(cache.figures().expect("figures").files, 1);
}
