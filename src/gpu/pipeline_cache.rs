//! What the driver made of kernels in earlier processes: a file for each adapter, driver and version of brasa.
//!
//! It is read when a device is opened. It is written half a second after the last of some kernels was compiled, by a
//! thread of its own, and when the device is dropped, if there is something new in it: a step waits for neither.
//! Nothing that is wrong with the file or its folder is an error, it only costs the time to compile.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use parking_lot::Mutex;

use crate::files::{TEMPORARY, write_whole};

/// The folder of these files, in the user's cache folder.
const FOLDER: &str = "pipelines";
/// How a file begins; then the checksum of what follows, four bytes, and what wgpu gave.
const MAGIC: &[u8; 8] = b"brasapl1";
const HEAD: usize = MAGIC.len() + 4;
/// A longer file is dropped, and what is needed of it compiled anew: drivers take nothing out of a cache.
const MAX_BYTES: u64 = 64 << 20;
/// Files that are kept; the oldest go first.
const MAX_FILES: usize = 8;
/// What a process that was killed left half-written is removed after this long.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);
/// The file is written when no kernel was compiled for this long.
const QUIET: Duration = Duration::from_millis(500);

/// The driver's cache of a device and its file.
#[derive(Debug)]
pub(super) struct PipelineCache(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    raw: wgpu::PipelineCache,
    path: PathBuf,
    state: Mutex<State>,
    /// Held by whoever writes the file.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Kernels that were compiled, and how many of them had been when the file was written.
    made: u64,
    saved: u64,
    /// A thread waits for the quiet in which it writes.
    is_watched: bool,
    /// The checksum of what the file has.
    written: Option<u32>,
    /// It grew too long in this process.
    is_full: bool,
}

impl PipelineCache {
    /// The cache of a device with what is in its file under `folder`; `None` if the device has no such caches or the
    /// file no place.
    pub(super) fn open(device: &wgpu::Device, folder: Option<&Path>) -> Option<Self> {
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let path = folder?.join(FOLDER).join(file_name(&device.adapter_info())?);
        let data = read(&path).unwrap_or_else(|reason| {
            tracing::debug!("{}: compiled kernels are made anew: {reason}", path.display());
            None
        });
        let raw = create(device, data.as_deref()).or_else(|| create(device, None))?;
        let state = State { written: data.as_deref().map(crc32c::crc32c), ..State::default() };
        Some(Self(Arc::new(Shared { raw, path, state: Mutex::new(state), writing: Mutex::new(()) })))
    }

    /// What pipelines are compiled with.
    pub(super) fn raw(&self) -> &wgpu::PipelineCache {
        &self.0.raw
    }

    /// A kernel was compiled.
    pub(super) fn note_made(&self) {
        let mut state = self.0.state.lock();
        state.made += 1;
        if !state.is_watched && !state.is_full {
            let shared = Arc::downgrade(&self.0);
            let thread = std::thread::Builder::new().name("brasa-pipeline-cache".into());
            // without a thread it is written when the device is dropped
            state.is_watched = thread.spawn(move || watch(&shared)).is_ok();
        }
    }

    /// Writes the file now if there is something new.
    #[cfg(any(feature = "cli", test))]
    pub(super) fn save(&self) {
        self.0.save();
    }
}

/// Waits until nothing was compiled for a while, then writes. Holds nothing meanwhile, so that a device can be dropped.
fn watch(shared: &Weak<Shared>) {
    let mut seen = None;
    loop {
        std::thread::sleep(QUIET);
        let Some(shared) = shared.upgrade() else { return };
        let mut state = shared.state.lock();
        if seen == Some(state.made) {
            state.is_watched = false;
            drop(state);
            return shared.save();
        }
        seen = Some(state.made);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.save();
    }
}

impl Shared {
    fn save(&self) {
        // kernels are compiled meanwhile, so `state` is not held
        let _alone = self.writing.lock();
        let written = {
            let mut state = self.state.lock();
            if state.made == state.saved || state.is_full {
                return;
            }
            state.saved = state.made;
            state.written
        };
        // a device that is lost has none
        let Some(data) = self.raw.get_data() else { return };
        if (HEAD + data.len()) as u64 > MAX_BYTES {
            self.state.lock().is_full = true;
            tracing::debug!("{}: dropped, as it has grown to {} bytes", self.path.display(), data.len());
            let _gone = fs::remove_file(&self.path);
            return;
        }
        let sum = crc32c::crc32c(&data);
        if written == Some(sum) {
            // those that nobody has used for long go first
            let _told =
                fs::File::options().write(true).open(&self.path).map(|file| file.set_modified(SystemTime::now()));
            return;
        }
        match write(&self.path, &data, sum) {
            Ok(()) => self.state.lock().written = Some(sum),
            Err(error) => tracing::debug!("compiled kernels are not kept: {error}"),
        }
    }
}

/// wgpu's name of adapters that share such a cache, the driver and brasa's version: another driver's would be refused,
/// and kernels of another version only make the file longer.
fn file_name(adapter: &wgpu::AdapterInfo) -> Option<String> {
    let key = wgpu::util::pipeline_cache_key(adapter)?;
    let mut hasher = DefaultHasher::new();
    (&adapter.name, &adapter.driver, &adapter.driver_info, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    Some(format!("{key}_{:016x}", hasher.finish()))
}

fn create(device: &wgpu::Device, data: Option<&[u8]>) -> Option<wgpu::PipelineCache> {
    let scopes = [wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Internal]
        .map(|filter| device.push_error_scope(filter));
    let descriptor = wgpu::PipelineCacheDescriptor { label: Some("brasa"), data, fallback: true };
    #[expect(unsafe_code, reason = "drivers trust what they are given to be their own")]
    // SAFETY: the data are what `get_data` gave to a process of brasa's, as far as can be known of a file: it lies in
    // the user's own cache folder, in a folder that nobody else may write to (`read` looks), as trusted as the program
    // itself; its checksum is right, so that neither a damaged nor a cut-off file comes here; and wgpu compares adapter
    // and driver with its own head.
    let cache = unsafe { device.create_pipeline_cache(&descriptor) };
    let mut errors = scopes.into_iter().rev().filter_map(|scope| pollster::block_on(scope.pop()));
    match errors.next() {
        None => Some(cache),
        Some(error) => {
            tracing::debug!("there is no cache of compiled kernels: {error}");
            None
        }
    }
}

/// What a file has, `None` if there is no file, and what is wrong with it otherwise.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err(format!("{} bytes, or no file", metadata.len()));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        const WRITABLE_BY_OTHERS: u32 = 0o022;
        let folder = fs::metadata(path.parent().unwrap_or(Path::new("."))).map_err(|error| error.to_string())?;
        let owner = rustix::process::geteuid().as_raw();
        if folder.mode() & WRITABLE_BY_OTHERS != 0 || [folder.uid(), metadata.uid()] != [owner; 2] {
            return Err("others may write to its folder, or it is theirs".into());
        }
    }
    let mut contents = fs::read(path).map_err(|error| error.to_string())?;
    let Some((head, data)) = contents.split_at_checked(HEAD) else { return Err("cut off".into()) };
    if head[..MAGIC.len()] != *MAGIC || head[MAGIC.len()..] != crc32c::crc32c(data).to_le_bytes() {
        return Err("damaged".into());
    }
    contents.drain(..HEAD);
    Ok(Some(contents))
}

fn write(path: &Path, data: &[u8], sum: u32) -> crate::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    private_folder(folder).map_err(|error| crate::Error::io(folder, error))?;
    let contents = [MAGIC, &sum.to_le_bytes()[..], data].concat();
    write_whole(path, &contents)?;
    tidy(folder);
    Ok(())
}

/// Makes a folder that only the user may use.
fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Removes the oldest files beyond those that are kept, and what killed processes left.
fn tidy(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let age = |entry: &fs::DirEntry| -> Option<Duration> {
        let changed = entry.metadata().ok()?.modified().ok()?;
        Some(SystemTime::now().duration_since(changed).unwrap_or_default())
    };
    let files = entries.flatten().filter_map(|entry| Some((age(&entry)?, entry)));
    let is_temporary = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(TEMPORARY);
    let (temporary, mut kept): (Vec<_>, Vec<_>) = files.partition(|(_, entry)| is_temporary(entry));
    kept.sort_by_key(|(age, _)| *age);
    let surplus = kept.into_iter().skip(MAX_FILES);
    for (_, entry) in temporary.into_iter().filter(|(age, _)| *age > STALE).chain(surplus) {
        let _gone = fs::remove_file(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::skip_without_gpu;
    use crate::gpu::{Gpu, adapters};

    const KERNEL: &str = "
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) { x[id.x] = id.x * NUMBERu; }";

    /// A GPU that keeps compiled kernels under `folder`, if there is one whose driver can.
    fn gpu(folder: Option<&Path>) -> Option<Arc<Gpu>> {
        let Some(adapter) = adapters().first().cloned() else {
            skip_without_gpu();
            return None;
        };
        let gpu = Gpu::open_with(&adapter, folder).expect("a listed adapter opens");
        gpu.device.features().contains(wgpu::Features::PIPELINE_CACHE).then_some(gpu)
    }

    fn compile(gpu: &Gpu, number: u32) {
        use crate::gpu::pipeline::{Slot, Text};
        let wgsl = KERNEL.replace("NUMBER", &number.to_string());
        gpu.pipeline("test", Text { wgsl: &wgsl, foreign: None }, &[Slot::Write]).expect("it compiles");
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder.join(FOLDER)).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    fn cache(gpu: &Gpu) -> &PipelineCache {
        gpu.pipeline_cache.as_ref().expect("the adapter has such caches")
    }

    #[test]
    fn what_was_compiled_is_there_for_the_next_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(first) = gpu(Some(folder.path())) else { return };
        assert_eq!(files(folder.path()), [] as [PathBuf; 0], "nothing new, nothing written");
        compile(&first, 3);
        cache(&first).save();
        let [file] = &files(folder.path())[..] else { panic!("one file: {:?}", files(folder.path())) };
        let kept = read(file).expect("whole").expect("there");
        assert!(!kept.is_empty());
        drop(first);

        let second = gpu(Some(folder.path())).expect("as before");
        assert_eq!(cache(&second).0.state.lock().written, Some(crc32c::crc32c(&kept)), "it was taken");
        compile(&second, 3);
        assert!(second.check().is_ok());
    }

    #[test]
    fn it_is_written_without_being_asked_and_when_the_device_is_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(first) = gpu(Some(folder.path())) else { return };
        compile(&first, 5);
        drop(first);
        let [file] = &files(folder.path())[..] else { panic!("one file") };
        fs::remove_file(file).expect("ours");
        let second = gpu(Some(folder.path())).expect("as before");
        compile(&second, 5);
        let begun = std::time::Instant::now();
        while files(folder.path()).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "written some moments later");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn damaged_files_are_started_afresh() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(first) = gpu(Some(folder.path())) else { return };
        compile(&first, 7);
        drop(first);
        let [file] = &files(folder.path())[..] else { panic!("one file") };
        let whole = fs::read(file).expect("readable");
        let mut flipped = whole.clone();
        flipped[HEAD + whole[HEAD..].len() / 2] ^= 1;
        let of_another =
            [MAGIC, &crc32c::crc32c(b"no cache of wgpu's").to_le_bytes()[..], b"no cache of wgpu's"].concat();
        for damaged in
            [&[][..], &whole[..5], &whole[..whole.len() - 1], &flipped, b"something else entirely", &of_another]
        {
            fs::write(file, damaged).expect("writable");
            let gpu = gpu(Some(folder.path())).expect("as before");
            compile(&gpu, 7);
            drop(gpu);
            assert!(read(file).is_ok_and(|kept| kept.is_some()), "it is whole again");
        }
    }

    #[test]
    fn of_two_who_write_at_once_one_is_left_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(first) = gpu(Some(folder.path())) else { return };
        compile(&first, 11);
        cache(&first).save();
        let [file] = &files(folder.path())[..] else { panic!("one file") };
        let contents = [vec![1u8; 1 << 20], vec![2; 3 << 20]];
        std::thread::scope(|scope| {
            for data in &contents {
                scope.spawn(move || (0..20).for_each(|_| write(file, data, crc32c::crc32c(data)).expect("writable")));
            }
            for _ in 0..40 {
                let kept = read(file).expect("whole at each moment").expect("there");
                assert!(kept.len() < 1 << 20 || contents.contains(&kept));
            }
        });
        assert_eq!(files(folder.path()).len(), 1, "nothing half-written is left");
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_no_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let in_the_way = folder.path().join("file");
        fs::write(&in_the_way, "no folder").expect("writable");
        let Some(first) = gpu(Some(&in_the_way)) else { return };
        compile(&first, 13);
        cache(&first).save();
        assert!(first.check().is_ok());
        assert_eq!(fs::read(&in_the_way).expect("there"), b"no folder");
    }

    #[cfg(unix)]
    #[test]
    fn what_others_may_write_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FOLDER).join("test");
        let data = b"data";
        write(&path, data, crc32c::crc32c(data)).expect("writable");
        assert_eq!(read(&path), Ok(Some(data.to_vec())));
        fs::set_permissions(folder.path().join(FOLDER), fs::Permissions::from_mode(0o777)).expect("ours");
        assert!(read(&path).is_err_and(|reason| reason.contains("others")));
    }

    #[test]
    fn files_do_not_add_up() {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..MAX_FILES + 5 {
            let path = folder.path().join(FOLDER).join(number.to_string());
            write(&path, b"data", crc32c::crc32c(b"data")).expect("writable");
        }
        assert_eq!(files(folder.path()).len(), MAX_FILES);
    }

    #[test]
    fn without_the_feature_or_a_folder_nothing_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(adapter) = adapters().first().cloned() else { return skip_without_gpu() };
        let plain = pollster::block_on(adapter.raw.request_device(&wgpu::DeviceDescriptor::default()));
        let (device, _queue) = plain.expect("a plain device");
        assert!(PipelineCache::open(&device, Some(folder.path())).is_none());
        if let Some(gpu) = gpu(None) {
            assert!(gpu.pipeline_cache.is_none());
            compile(&gpu, 17);
        }
        assert_eq!(files(folder.path()), [] as [PathBuf; 0]);
    }
}
