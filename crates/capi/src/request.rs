//! Requests: submitted, read by waiting or by an event loop, cancelled from any thread.

use crate::{
    argument::{UserPointer, need_string, place},
    event::{EventMemory, LaminaEvent, check_event},
    guard::{LaminaStatus, Result, guard, invalid, quiet},
    handle::HandleTable,
    model::{LaminaModel, MODELS},
};
use lamina::Canceller;
use lamina_serve::{DetailedDelta, LocalRequest};
use std::{
    ffi::{c_char, c_void},
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    task::{Context, Poll, Wake},
    time::{Duration, Instant},
};

/// A request that runs. It keeps its model; one thread reads it at a time.
pub struct LaminaRequest {
    _number: u8,
}

/// Called once, on a thread of Lamina's: it may post to an event loop, and call nothing of Lamina's.
pub type LaminaReady = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// Requests by their handles.
static REQUESTS: HandleTable<RequestState> = HandleTable::new("request");

/// A request: what cancels it is apart from what its reader holds.
struct RequestState {
    cancellers: Vec<Canceller>,
    bell: Mutex<Option<Arc<Bell>>>,
    reader: Mutex<RequestEvents>,
}

/// What the one thread that reads needs.
struct RequestEvents {
    request: LocalRequest,
    /// What `lamina_request_on_ready` found, and nobody took yet.
    ahead: Option<Option<Result<DetailedDelta>>>,
    over: bool,
    memory: EventMemory,
}

/// A caller's function that is called once; none when it was, or when nobody wants it any more.
struct Bell(Mutex<Option<(unsafe extern "C" fn(user: *mut c_void), UserPointer)>>);

impl Bell {
    /// Nothing calls it from now on: a call that has begun is waited for.
    fn silence(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // Held while it rings, so that whoever silences it waits for the end of that.
        let mut bell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((ring, user)) = bell.take() {
            // SAFETY: the caller gave the function and what it wants to be called with, and has not freed the request.
            unsafe { ring(user.get()) };
        }
    }
}

impl RequestState {
    fn new(request: LocalRequest) -> RequestState {
        let cancellers = request.cancellers().to_vec();
        let reader = RequestEvents { request, ahead: None, over: false, memory: EventMemory::default() };
        RequestState { cancellers, bell: Mutex::default(), reader: Mutex::new(reader) }
    }

    fn reader(&self) -> Result<MutexGuard<'_, RequestEvents>> {
        match self.reader.try_lock() {
            Ok(reader) => Ok(reader),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(invalid("another thread reads this request: one at a time may"))
            }
        }
    }

    fn cancel(&self) {
        self.cancellers.iter().for_each(Canceller::cancel);
    }

    /// The bell that rings from now on; one before it is silent when this returns.
    fn hang(&self, bell: Option<Arc<Bell>>) {
        let old = std::mem::replace(&mut *self.bell.lock().unwrap_or_else(PoisonError::into_inner), bell);
        if let Some(old) = old {
            old.silence();
        }
    }
}

impl RequestEvents {
    /// The next piece: none in time, or an end without an error.
    fn next(&mut self, end: Option<Instant>) -> Result<Option<DetailedDelta>, Option<lamina::Error>> {
        if self.over {
            return Err(None);
        }
        let next = match self.ahead.take() {
            Some(found) => found.transpose().map_err(Some).and_then(|piece| piece.map(Some).ok_or(None)),
            None => self.request.next_until(end),
        };
        self.over = next.is_err();
        next
    }

    /// True where there is something to read now; otherwise the context is woken.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if self.over || self.ahead.is_some() {
            return true;
        }
        match self.request.poll_next(context) {
            Poll::Ready(found) => self.ahead = Some(found),
            Poll::Pending => return false,
        }
        true
    }
}

/// Begins a request: an object of JSON with the fields of POST /v1/chat/completions where it has `messages`, else of POST
/// /v1/completions, with their defaults and refusals (docs/serving-fields.md). `stream` makes no difference.
///
/// # Safety
/// `request` ends with a zero byte, and `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lamina_submit(
    model: *const LaminaModel,
    request: *const c_char,
    out: *mut *mut LaminaRequest,
    error: *mut *mut c_char,
) -> LaminaStatus {
    let call = || {
        let model = MODELS.get(model)?;
        // SAFETY: the string ends and the place may be written, says the caller.
        let (request, out) = unsafe { (need_string(request, "request")?, place(out, "out")?) };
        out.put(REQUESTS.insert(Arc::new(RequestState::new(model.submit(request)?))));
        Ok(LaminaStatus::Ok)
    };
    // SAFETY: `error` is NULL or may be written, says the caller.
    unsafe { guard(error, call) }
}

/// Waits for the next event, for at most `milliseconds`; below 0 for as long as it takes, 0 not at all. The result is
/// `LAMINA_STATUS_OK` with an event, `_TIMEOUT` where none came in time, `_END` when all answers have ended, or what ended the
/// request.
///
/// # Safety
/// `event->size` is set, and the event may be written for that size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lamina_request_next(
    request: *const LaminaRequest,
    milliseconds: i64,
    event: *mut LaminaEvent,
    error: *mut *mut c_char,
) -> LaminaStatus {
    let call = || {
        let state = REQUESTS.get(request)?;
        // SAFETY: its size is set, says the caller.
        unsafe { check_event(event) }?;
        let time = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        let mut reader = state.reader()?;
        let piece = match reader.next(time.and_then(|time| Instant::now().checked_add(time))) {
            Ok(Some(piece)) => piece,
            Ok(None) => return Ok(LaminaStatus::Timeout),
            Err(None) => return Ok(LaminaStatus::End),
            Err(Some(error)) => return Err(error),
        };
        // SAFETY: the event was checked, and may be written for its size, says the caller.
        unsafe { reader.memory.write(piece, event) };
        Ok(LaminaStatus::Ok)
    };
    // SAFETY: `error` is NULL or may be written, says the caller.
    unsafe { guard(error, call) }
}

/// For event loops. True where `lamina_request_next` has something to say without waiting. Otherwise `ready` is called once when
/// it has, unless the request is freed or this is called again before: when either returns, it is called no more.
///
/// # Safety
/// `ready` may be called with `user` on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lamina_request_on_ready(
    request: *const LaminaRequest,
    ready: LaminaReady,
    user: *mut c_void,
) -> bool {
    let poll = || {
        let state = REQUESTS.get(request).ok()?;
        state.hang(None);
        let ready = ready?;
        let bell = Arc::new(Bell(Mutex::new(Some((ready, UserPointer(user))))));
        state.hang(Some(bell.clone()));
        let found = state.reader().ok()?.poll(&mut Context::from_waker(&bell.into()));
        if found {
            state.hang(None);
        }
        Some(found)
    };
    // Of what is wrong, `lamina_request_next` says what.
    quiet(poll).flatten().unwrap_or(true)
}

/// Asks for an early end, from any thread and at any time; the last event of each answer then says `cancelled`.
#[unsafe(no_mangle)]
pub extern "C" fn lamina_request_cancel(request: *const LaminaRequest) {
    quiet(|| REQUESTS.get(request).map(|state| state.cancel()));
}

/// Frees a request, and ends it where it still runs. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn lamina_request_free(request: *mut LaminaRequest) {
    quiet(|| {
        if let Some(state) = REQUESTS.remove(request) {
            // A thread that waits for its events, and holds it, sees the end.
            state.cancel();
            state.hang(None);
        }
    });
}
