//! The functions of NVIDIA's driver that are called, as its manual declares them.

use crate::library::functions;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// The driver's answer.
pub(crate) type Code = c_uint;

pub(crate) type CUdevice = c_int;
pub(crate) type CUcontext = *mut c_void;
pub(crate) type CUstream = *mut c_void;
pub(crate) type CUevent = *mut c_void;
pub(crate) type CUmodule = *mut c_void;
pub(crate) type CUfunction = *mut c_void;
pub(crate) type CUgraph = *mut c_void;
pub(crate) type CUgraphExec = *mut c_void;

/// All went well.
pub(crate) const SUCCESS: Code = 0;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NOT_INITIALIZED: Code = 3;
pub(crate) const NO_DEVICE: Code = 100;

/// Attributes of a device: the two numbers of its compute capability.
pub(crate) const CAPABILITY_MAJOR: c_uint = 75;
pub(crate) const CAPABILITY_MINOR: c_uint = 76;

/// Attributes of a function: bytes of shared memory of a block, and the share in percent of the first cache that should be
/// shared memory.
pub(crate) const SHARED_BYTES: c_uint = 1;
pub(crate) const SHARED_CARVEOUT: c_uint = 9;

/// Recordings forbid calls of the recording thread alone.
pub(crate) const CAPTURE_THREAD_LOCAL: c_uint = 1;

functions! {
    Code, NOT_INITIALIZED;
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuGetErrorName(code: Code, text: *mut *const c_char);
    fn cuGetErrorString(code: Code, text: *mut *const c_char);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGet(device: *mut CUdevice, number: c_int);
    fn cuDeviceGetPCIBusId(bus: *mut c_char, room: c_int, device: CUdevice);
    fn cuDeviceGetName(name: *mut c_char, room: c_int, device: CUdevice);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    fn cuCtxSetCurrent(context: CUcontext);
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    fn cuStreamDestroy_v2(stream: CUstream);
    fn cuStreamSynchronize(stream: CUstream);
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint);
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    fn cuEventRecord(event: CUevent, stream: CUstream);
    fn cuEventSynchronize(event: CUevent);
    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    fn cuEventDestroy_v2(event: CUevent);
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize);
    fn cuMemFree_v2(address: u64);
    fn cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemFreeHost(memory: *mut c_void);
    fn cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemHostUnregister(memory: *mut c_void);
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: CUstream);
    fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: CUstream);
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    fn cuModuleUnload(module: CUmodule);
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction);
    fn cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int);
    fn cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void);
    fn cuGraphInstantiateWithFlags(instance: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    fn cuGraphLaunch(instance: CUgraphExec, stream: CUstream);
    fn cuGraphDestroy(graph: CUgraph);
    fn cuGraphExecDestroy(instance: CUgraphExec);
}
