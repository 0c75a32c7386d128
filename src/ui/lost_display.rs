//! What Xlib does when its display is lost: by default it ends the process, and with it the run that the window shows.

#![expect(unsafe_code, reason = "Xlib is C, and one of these functions is in no binding of it")]

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use eframe::CreationContext;
use libloading::{Error, Library};
use wgpu::rwh::{HasDisplayHandle as _, RawDisplayHandle};

type Display = *mut c_void;
type Handler = extern "C" fn(Display) -> c_int;
type ExitHandler = extern "C" fn(Display, *mut c_void);

/// Has the loss be an error of the calls that notice it, as on all other connections, if this is an X11 display.
pub(super) fn outlive(creation: &CreationContext<'_>) {
    let Ok(handle) = creation.display_handle() else { return };
    if let RawDisplayHandle::Xlib(handle) = handle.as_raw()
        && let Some(display) = handle.display
        // SAFETY: the display is open as long as `creation` lives
        && let Err(error) = unsafe { set_handlers(display.as_ptr()) }
    {
        tracing::debug!("a lost display will end the process: {error}");
    }
}

/// # Safety
/// The display must be open.
unsafe fn set_handlers(display: Display) -> Result<(), Error> {
    // SAFETY: a display of it is open, so that the library is there already and nothing is run by loading it; the types
    // are those of Xlib.h
    unsafe {
        let xlib = Library::new("libX11.so.6")?;
        // Xlib has it since version 1.7; without it, the process is ended whatever the other handler does
        let set_exit_handler: extern "C" fn(Display, ExitHandler, *mut c_void) =
            *xlib.get(b"XSetIOErrorExitHandler\0")?;
        let set_handler: extern "C" fn(Handler) -> *const c_void = *xlib.get(b"XSetIOErrorHandler\0")?;
        set_exit_handler(display, go_on, null_mut());
        set_handler(say_nothing);
    }
    Ok(())
}

/// By default, this ends the process.
extern "C" fn go_on(_display: Display, _data: *mut c_void) {}

/// By default, this prints a line and ends the process.
extern "C" fn say_nothing(_display: Display) -> c_int {
    0
}
