//! The program: parse, call, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    quieten_device_selection();
    brasa::cli::run(std::env::args_os())
}

/// Where no session has a `XDG_RUNTIME_DIR`, as in containers, Mesa's layer that puts the display's GPU first finds no
/// Wayland display and says so as an error, each time. It is told to stay away: which device is used is decided by
/// `brasa` itself. Whoever tells that layer or Mesa what to select is heard.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no other way to tell a layer that the Vulkan loader brings")]
fn quieten_device_selection() {
    const SESSION: [&str; 3] = ["XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"];
    const SELECTION: [&str; 2] = ["MESA_VK_DEVICE_SELECT", "DRI_PRIME"];
    if SESSION.iter().chain(&SELECTION).all(|name| std::env::var_os(name).is_none()) {
        // SAFETY: the process has just begun, and no other thread reads the environment.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}
