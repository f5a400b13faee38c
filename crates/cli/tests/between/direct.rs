//! Contents that go straight from one host to the other. The hosts are addresses of this
//! machine, and what goes to them and comes from them through here is counted.

use crate::common::*;
use crate::{LARGE, SOON, said};
use haul_testkit::haul::{Outcome, Running};
use haul_testkit::proc::{self, Signal};
use haul_testkit::{Haul, assert_same, fixture, same_content, tcp, tree};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The hosts that a job goes between, as their names and where they are.
const FROM: &str = "127.0.0.1";
const TO: &str = "127.0.0.2";

/// Content that passes here before there is another way, at most, in bytes: what is worth no
/// call, and a pack of each of two workers.
const FIRST_MAX: u64 = 5 << 20;

/// How the hosts of a scene are.
#[derive(Clone, Copy)]
struct Hosts<'s> {
    /// The address by which the second one is reached, as far as it knows.
    to_at: &'s str,
    /// In front of the first one's agent, and of the second one's.
    before: [&'s str; 2],
    /// The agent's own words, behind `serve`.
    words: &'s str,
}

const PLAIN: Hosts<'static> = Hosts { to_at: TO, before: ["", ""], words: "" };

/// A scene with such hosts.
fn scene<'w>(world: &'w World, name: &str, hosts: Hosts<'_>) -> Scene<'w> {
    let mut scene = world.scene_called(name, Way::Between);
    let Hosts { to_at, before: [before_from, before_to], words } = hosts;
    let lines = format!(
        "at=$1 before='{before_from}'\n\
         [ $1 = {FROM} ] || {{ at={to_at} before='{before_to}'; }}\nshift\n\
         export SSH_CONNECTION=\"127.0.0.1 1 $at 2\"\n\
         {{ tee -a '{0}' | sh -c \"$before $* {words}\" | tee -a '{0}'; }}",
        scene.path("count").display()
    );
    let rsh = script(&scene.path("counting"), &lines);
    scene.reach_by(rsh);
    scene
}

/// A job from one host to the other.
fn job(scene: &Scene<'_>, words: &[&str], source: &str, dest: &str) -> Haul {
    job_to(TO, scene, words, source, dest)
}

/// The same to the host of that name.
fn job_to(to: &str, scene: &Scene<'_>, words: &[&str], source: &str, dest: &str) -> Haul {
    let on = |host: &str, path: &str| format!("{host}:{}", scene.path(path).display());
    let haul = scene.haul().args(words).args(scene.remote()).arg("--").limit(SOON);
    haul.arg(on(FROM, source)).arg(on(to, dest))
}

/// Bytes that have gone through here since this was asked the last time.
fn through_here(scene: &Scene<'_>) -> u64 {
    let count = scene.path("count");
    let len = fs::metadata(&count).expect("it was counted").len();
    fs::remove_file(count).expect("removed");
    len
}

/// A large file, others that are sent in pieces, a sparse one, and many small ones.
fn make_source(scene: &Scene<'_>) -> u64 {
    tree::many(scene.path("src/many"), 300, 4 << 10, 4, 1).expect("a tree");
    for (name, len) in [("large", LARGE), ("odd", (12 << 20) + 4321), ("one", 600 << 10)] {
        tree::random_file(scene.path("src").join(name), len, len).expect("a file");
    }
    fs::File::create(scene.path("src/sparse")).and_then(|it| it.set_len(30 << 20)).expect("made");
    scene.file("src/empty", "");
    LARGE + (12 << 20) + (600 << 10) + 300 * (4 << 10)
}

/// The number of a field of the summary.
fn field(run: &Outcome, name: &str) -> Option<u64> {
    let out = run.out();
    let rest = out.split(&format!("\"{name}\":")).nth(1)?;
    rest.split([',', '}']).next()?.parse().ok()
}

#[test]
fn contents_do_not_pass_here() {
    let world = World::new();
    let scene = scene(&world, "straight", PLAIN);
    let contents = make_source(&scene);
    let copy = |via: &str| {
        let flags = ["copy", "-r", "--json", "--compress", "none", "--via", via];
        let run = job(&scene, &flags, "src/.", via).run().expect_ok();
        assert_same(&scene.snapshot("src"), &scene.snapshot(via));
        assert!(field(&run, "moved").is_some_and(|moved| moved >= contents), "{run}");
        (through_here(&scene), field(&run, "relayed"))
    };
    let (passed, relayed) = copy("tcp");
    assert!(passed < 1 << 20 && relayed.is_none(), "{passed} {relayed:?}");
    // On a machine that has much else to do, a call may take longer than is waited for it.
    let few = (0..3).any(|_| {
        scene.clear(&["auto"]);
        let (passed, relayed) = copy("auto");
        passed < 2 * FIRST_MAX && relayed.unwrap_or(0) < FIRST_MAX
    });
    assert!(few, "contents pass here all the same");
    let (passed, relayed) = copy("ssh");
    assert!(passed > 2 * contents && relayed.is_none(), "{passed} {relayed:?}");
    let run = job(&scene, &["copy", "-r", "--via", "tcp"], "src/.", "tcp").run().expect_ok();
    assert!(run.out().starts_with("copied nothing"), "{run}");
}

#[test]
fn that_they_do_not_is_reported_on_demand() {
    let world = World::new();
    let scene = scene(&world, "told", PLAIN);
    tree::random_file(scene.path("large"), LARGE, 1).expect("a file");
    let copy = |words: &[&str], dest: &str| {
        let words = [&["copy", "-v", "--via", "tcp"], words].concat();
        job(&scene, &words, "large", dest).run().expect_ok()
    };
    let run = copy(&[], "a");
    assert!(run.err().contains("haul: contents go to 127.0.0.2 over "), "{run}");
    assert!(!run.out().contains("through this machine"), "{run}");
    let run = copy(&["--parallel", "5"], "b");
    assert!(run.err().contains("haul: contents go to 127.0.0.2 over 5 direct connec"), "{run}");
    for dest in ["a", "b"] {
        assert!(same_content(scene.path("large"), scene.path(dest)).expect("read"), "{dest}");
    }
}

#[test]
fn by_real_ssh_the_hosts_find_each_other() {
    let world = World::new();
    let scene = world.scene(Way::Between);
    make_source(&scene);
    let flags = ["-rv", "--via", "tcp"];
    let run = scene.copy(&flags, &["src/."], "dst").limit(SOON).run().expect_ok();
    assert!(run.err().contains("haul: contents go to haul-test over "), "{run}");
    assert_same(&scene.snapshot("src"), &scene.snapshot("dst"));
}

/// The job goes on through here, and says why; unless that is not wanted.
fn assert_through_here(scene: &Scene<'_>, reason: &str) {
    let contents = make_source(scene);
    let run = job(scene, &["copy", "-rv"], "src/.", "auto").run().expect_ok();
    assert_same(&scene.snapshot("src"), &scene.snapshot("auto"));
    let line = run
        .err()
        .lines()
        .find(|line| line.contains("without direct connections: "))
        .map(str::to_owned);
    let line = line.unwrap_or_else(|| panic!("nothing is said: {run}"));
    assert!(
        line.starts_with("haul: contents go to 127.0.0.2 without direct connections: "),
        "{run}"
    );
    assert!(line.contains(reason) && line.ends_with("; they go through this machine"), "{run}");
    assert!(run.out().contains("through this machine"), "{run}");
    assert!(through_here(scene) > contents);
    let run = job(scene, &["copy", "-r", "--via", "tcp"], "src/.", "tcp").run().expect_code(3);
    assert!(said(&run).starts_with("no direct connection to 127.0.0.2: "), "{run}");
    assert!(said(&run).contains(reason), "{run}");
    assert!(!scene.exists("tcp/large") && !scene.exists("tcp/empty"), "{:?}", scene.list("tcp"));
    assert!(through_here(scene) < 1 << 20);
    // Nothing has to be sent.
    job(scene, &["copy", "-r", "--via", "tcp"], "src/.", "auto").run().expect_ok();
    job(scene, &["copy", "-r", "--via", "ssh"], "src/.", "ssh").run().expect_ok();
    assert_same(&scene.snapshot("src"), &scene.snapshot("ssh"));
}

/// True if processes of the tests can have a network of their own.
fn has_networks() -> bool {
    let can = Command::new("unshare").args(["--net", "ip", "link", "set", "lo", "up"]).status();
    let can = can.is_ok_and(|status| status.success());
    if !can {
        fixture::missing("a network namespace of its own");
    }
    can
}

#[test]
fn hosts_that_cannot_reach_each_other_go_through_here() {
    if !has_networks() {
        return;
    }
    let world = World::new();
    // There is no way from its network to any other.
    let before = ["unshare --net", ""];
    let scene = scene(&world, "apart", Hosts { before, ..PLAIN });
    assert_through_here(&scene, "unreachable");
}

#[test]
fn a_host_whose_port_is_shut_is_reached_through_here() {
    if !has_networks() {
        return;
    }
    let world = World::new();
    // Who calls there is refused: the port is open elsewhere.
    let before = ["unshare --net sh -c \"ip link set lo up; exec \\\"\\$@\\\"\" sh", ""];
    let scene = scene(&world, "shut", Hosts { before, ..PLAIN });
    assert_through_here(&scene, "Connection refused");
}

#[test]
fn calls_that_nobody_answers_hold_up_nobody_for_long() {
    if !has_networks() {
        return;
    }
    let world = World::new();
    // What the one sends to the other gets lost on its way.
    let networks = ["ip addr add 10.99.99.1/24 dev lost", "ip addr add 10.99.99.2/32 dev lo"];
    let before = networks.map(|network| {
        let link = "ip tuntap add lost mode tun; ip link set lost up; ip link set lo up";
        format!("unshare --net sh -c \"{link}; {network}; exec \\\"\\$@\\\"\" sh")
    });
    let [from, to] = &before;
    let hosts = Hosts { to_at: "10.99.99.2", before: [from, to], ..PLAIN };
    let scene = scene(&world, "lost", hosts);
    tree::random_file(scene.path("large"), LARGE, 1).expect("a file");
    let begin = Instant::now();
    let run = job_to("10.99.99.2", &scene, &["copy", "-v"], "large", "there").run().expect_ok();
    assert!(begin.elapsed() < Duration::from_secs(10), "{run}");
    assert!(run.out().contains("through this machine"), "{run}");
    assert!(same_content(scene.path("large"), scene.path("there")).expect("read"));
}

#[test]
fn a_host_that_names_another_address_is_not_called_there() {
    let world = World::new();
    for at in ["127.0.0.3", "0.0.0.0", "::"] {
        let hosts = Hosts { to_at: at, ..PLAIN };
        let scene = scene(&world, &at.replace(':', "-"), hosts);
        let reason =
            if at == "127.0.0.3" { "its name does not resolve to" } else { "the invalid address" };
        assert_through_here(&scene, reason);
    }
}

#[test]
fn a_host_that_can_open_no_port_is_reached_through_here() {
    let world = World::new();
    let port = TcpListener::bind((TO, 0)).expect("a port");
    let taken = port.local_addr().expect("an address").port().to_string();
    let scene = scene(&world, "taken", PLAIN);
    make_source(&scene);
    let copy = |via: &str| {
        let flags = ["copy", "-rv", "--port-range", &taken, "--via", via];
        job(&scene, &flags, "src/.", via).run()
    };
    let run = copy("auto").expect_ok();
    assert!(run.err().contains("the host can't open a port: "), "{run}");
    assert_same(&scene.snapshot("src"), &scene.snapshot("auto"));
    let run = copy("tcp").expect_code(3);
    assert!(said(&run).contains("the host can't open a port: "), "{run}");
}

#[test]
fn a_login_that_is_bound_to_a_directory_calls_nobody() {
    let world = World::new();
    let root = world.path().join("bound");
    let words = format!("--root {}", root.display());
    let scene = scene(&world, "bound", Hosts { words: &words, ..PLAIN });
    scene.mkdir("src");
    tree::random_file(scene.path("src/large"), LARGE, 1).expect("a file");
    let copy = |words: &[&str]| {
        let words = [&["copy", "-v"], words].concat();
        let haul = scene.haul().args(words).args(scene.remote()).arg("--");
        haul.args([format!("{FROM}:src/large"), format!("{TO}:there")]).run()
    };
    let run = copy(&["--via", "tcp"]).expect_code(3);
    assert!(
        said(&run).contains("a login restricted to a directory connects to no other host"),
        "{run}"
    );
    let run = copy(&[]).expect_ok();
    assert!(
        run.err().contains("restricted to a directory connects to no other host; they go"),
        "{run}"
    );
    assert!(run.out().contains("through this machine"), "{run}");
}

/// The agents of a job that runs.
fn agents(running: &Running) -> Vec<u32> {
    let below = proc::descendants(running.pid()).into_iter();
    below.filter(|pid| proc::is_agent(*pid)).collect()
}

/// A mirror over such connections, of which so many are cut.
fn with_cuts(scene: &Scene<'_>, via: &str, cuts: usize) -> Outcome {
    let flags = ["sync", "-a", "--json", "--bwlimit", "40m", "--via", via];
    let running = job(scene, &flags, "src/", "dst").spawn().expect("it starts");
    let (begin, mut cut) = (Instant::now(), 0);
    while cut < cuts && begin.elapsed() < SOON && running.is_running() {
        std::thread::sleep(Duration::from_millis(150));
        // Either side of a connection.
        cut += usize::from(agents(&running).into_iter().any(tcp::cut_one));
    }
    assert!(cut > 0, "no connection was ever there");
    let run = running.wait().expect("it ends");
    assert_no_strays(&scene.path("dst"));
    run
}

#[test]
fn a_connection_that_is_cut_costs_what_was_on_it() {
    let world = World::new();
    let scene = scene(&world, "cut", PLAIN);
    make_source(&scene);
    let run = with_cuts(&scene, "auto", 1).expect_ok();
    assert!(!run.out().contains("connection_lost"), "{run}");
    assert!(field(&run, "relayed").unwrap_or(0) < LARGE, "{run}");
    assert_same(&scene.snapshot("src"), &scene.snapshot("dst"));
}

#[test]
fn when_all_are_cut_the_rest_goes_through_here() {
    let world = World::new();
    let scene = scene(&world, "all-cut", PLAIN);
    make_source(&scene);
    let run = with_cuts(&scene, "auto", 9).expect_ok();
    assert!(!run.out().contains("connection_lost"), "{run}");
    assert!(field(&run, "relayed").is_some_and(|relayed| relayed > FIRST_MAX), "{run}");
    assert_same(&scene.snapshot("src"), &scene.snapshot("dst"));
}

#[test]
fn an_interrupt_leaves_what_has_come_straight() {
    let world = World::new();
    let scene = scene(&world, "interrupted", PLAIN);
    scene.mkdir("src");
    scene.mkdir("dst");
    tree::random_file(scene.path("src/large"), LARGE, 1).expect("a file");
    let sync = |words: &[&str]| {
        let words = [&["sync", "-t", "--via", "tcp", "--parallel", "2"], words].concat();
        job(&scene, &words, "src/large", "dst/")
    };
    let running = sync(&["--bwlimit", "16m"]).spawn().expect("it starts");
    assert!(running.until(SOON, || largest(&scene.path("dst")) > 20 << 20), "it does not come");
    let agents = agents(&running);
    assert_eq!(agents.len(), 2);
    running.signal(Signal::INT);
    let run = running.wait().expect("it ends");
    assert_eq!(said(&run), "interrupted: a partial file of large is kept", "{run}");
    assert!(haul_testkit::holds_within(SOON, || !agents.iter().any(|pid| proc::is_alive(*pid))));
    let run = sync(&["--json"]).run().expect_ok();
    assert!(moved(&run) <= LARGE - (4 << 20), "{run}");
    assert!(same_content(scene.path("src/large"), scene.path("dst/large")).expect("read"));
}

fn largest(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|it| it.len()).max().unwrap_or(0)
}

#[test]
fn mirrors_differences_and_comparisons_continue_working() {
    let world = World::new();
    let scene = scene(&world, "mirror", PLAIN);
    make_source(&scene);
    scene.file("dst/extra", "x");
    let mut old = fs::read(scene.path("src/large")).expect("read");
    old.chunks_mut(2 << 20).step_by(4).for_each(|part| part.fill(7));
    fs::write(scene.path("dst/large"), old).expect("written");
    let flags = ["sync", "-a", "--delete", "--json", "--via", "tcp"];
    let run = job(&scene, &flags, "src/", "dst").run().expect_ok();
    assert!(field(&run, "matched").is_some_and(|matched| matched > LARGE / 2), "{run}");
    assert_same(&scene.snapshot("src"), &scene.snapshot("dst"));
    assert!(through_here(&scene) < 2 << 20);
    let run = job(&scene, &["check", "-r"], "src/.", "dst/.").run().expect_ok();
    assert!(run.out().starts_with("no difference"), "{run}");
}
