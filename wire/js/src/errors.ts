/** What the client throws. Every error says in its message what to do. */

/** SteleError is the class of everything that the client throws. */
export class SteleError extends Error {
  /** code is the protocol's code of the error; empty if the client found it itself. */
  static readonly code: string = "";
  /** advice is what to do about errors of the class. */
  static readonly advice: string = "";

  /** details are what the server tells beside the message, such as the thread. */
  readonly details: Record<string, unknown>;

  constructor(message: string, options: { details?: Record<string, unknown>; cause?: unknown } = {}) {
    const advice = new.target.advice;
    super(advice ? `${message}. ${advice}` : message, options.cause === undefined ? {} : { cause: options.cause });
    this.name = new.target.name;
    this.details = options.details ?? {};
  }

  /** code is the protocol's code of the error; empty if the client found it itself. */
  get code(): string {
    return (this.constructor as typeof SteleError).code;
  }
}

/** An argument is wrong. Nothing was written. */
export class InvalidArgumentError extends SteleError {
  static override readonly code = "invalid";
}

/** The checkpoint, thread or item that the call needs is not there. */
export class NotFoundError extends SteleError {
  static override readonly code = "not_found";
}

/** The head of the thread is another one than expected. Nothing was written. */
export class ConflictError extends SteleError {
  static override readonly code = "conflict";
  static override readonly advice = "Read the thread again and decide anew";
}

/** Another program owns the thread. */
export class ThreadOwnedError extends SteleError {
  static override readonly code = "owned";
  static override readonly advice = "Wait until its lease ends";
}

/** The lease on the thread is lost. Nothing was written. */
export class LeaseLostError extends SteleError {
  static override readonly code = "fenced";
  static override readonly advice = "Own the thread again before you write to it";
}

/** The thread was deleted while it was written to. Nothing was written. */
export class ThreadDeletedError extends SteleError {
  static override readonly code = "thread_deleted";
  static override readonly advice = "Start the thread anew: a run that began before the deletion cannot go on";
}

/** The thread to copy to has checkpoints already. Nothing was written. */
export class ThreadExistsError extends SteleError {
  static override readonly code = "thread_exists";
  static override readonly advice = "Copy to a new thread id, or delete that thread first";
}

/** A checkpoint is its own ancestor. */
export class AncestorCycleError extends SteleError {
  static override readonly code = "ancestor_cycle";
  static override readonly advice = "Put the checkpoint again with its true parent";
}

/** A value, or a call, is over a limit. Nothing was written. */
export class TooLargeError extends SteleError {
  static override readonly code = "too_large";
  static override readonly advice = "Keep large data elsewhere and its address here; divide a large batch, and shorten a long name";
}

/** A budget cannot be kept. */
export class BudgetError extends SteleError {
  static override readonly code = "budget";
  static override readonly advice = "Raise the budget, or let the store cut threads that are waiting";
}

/** The disk is full. Nothing was written, and nothing that was there is lost. */
export class DiskFullError extends SteleError {
  static override readonly code = "disk_full";
  static override readonly advice =
    "Make room, or delete threads or items, whose space comes back by itself; then the store takes writes again";
}

/** The store was opened for reading, or follows another one. */
export class ReadOnlyError extends SteleError {
  static override readonly code = "read_only";
  static override readonly advice = 
    "Use the server that has the store open for writing; if this one follows another, that is the leader, and with `--take-over` this one some time after the leader is lost";
}

/** The store does not know whether the call had an effect. */
export class UnknownOutcomeError extends SteleError {
  static override readonly code = "unknown_outcome";
  static override readonly advice = "Call sync(): when it returns, what can be read is there for good";
}

/** Stored bytes are damaged. Nothing damaged is returned. */
export class CorruptError extends SteleError {
  static override readonly code = "corrupt";
  static override readonly advice = "Run `stele verify` on the directory, and restore it from a backup";
}

/** The store takes no more writes until its server has been started again. */
export class UnavailableError extends SteleError {
  static override readonly code = "unavailable";
  static override readonly advice = "Look at the disk. The server ends by itself, and the next call starts another";
}

/** The server ends. The client asks again by itself, so callers do not see this error. */
export class ClosingError extends SteleError {
  static override readonly code = "closing";
}

/** The threads are deleted. The rest of their bytes is erased later. */
export class EraseUnfinishedError extends SteleError {
  static override readonly code = "erase_unfinished";
  static override readonly advice = "Call erase() again until it succeeds";
}

/** This store does not have the method. */
export class UnsupportedError extends SteleError {
  static override readonly code = "unsupported";
  static override readonly advice = "Stores differ in what they can do; the store of a directory has all methods";
}

/** The token is missing or wrong. */
export class AuthError extends SteleError {
  static override readonly code = "auth";
  static override readonly advice = "Pass the server's token: fromUrl(url, { token }), or set STELE_TOKEN";
}

/** Server and client speak different versions of the protocol. */
export class VersionError extends SteleError {
  static override readonly code = "version";
  static override readonly advice = "Install the same release of stele for both, then end the old server";
}

/** A message could not be understood, or is not one that was asked for. */
export class ProtocolError extends SteleError {
  static override readonly code = "bad_request";
  static override readonly advice =
    "Check that a stele server listens at the address, and the types of the arguments; if they are right, client and server do not fit: install the same release of both";
}

/** The call was cancelled and had no effect. */
export class CancelledError extends SteleError {
  static override readonly code = "cancelled";
}

/** Anything else that went wrong in the server. */
export class InternalError extends SteleError {
  static override readonly code = "internal";
  static override readonly advice = "Look at the server's log";
}

/** The server cannot be reached. A call that writes may have had its effect. */
export class SteleConnectionError extends SteleError {
  static override readonly advice = "Check that the server runs and that the address is right";
}

/**
 * SteleTimeoutError: there was no answer in time. A call that writes may have had its
 * effect. To make it again is safe for put and putWrites: the same checkpoint or
 * write is stored once.
 */
export class SteleTimeoutError extends SteleError {}

/** The client was closed. */
export class ClosedError extends SteleError {
  static override readonly advice = "Make a new saver or store; do not call close() while it is in use";
}

/** A value was stored by another language, and JavaScript cannot hold it. */
export class UnreadableValueError extends SteleError {
  static override readonly advice = "Read the thread with the language that wrote it";
}

/** `stele serve` could not be started. */
export class ServerStartError extends SteleError {}

/** The directory does not exist, or holds something else than a store. */
export class DirectoryError extends ServerStartError {}

/** A program has the directory open and does not serve it. */
export class DirectoryLockedError extends ServerStartError {
  static override readonly advice = "End the program that has the store open, or let it serve the store";
}

/** There is no program `stele` to start. */
export class BinaryNotFoundError extends ServerStartError {
  static override readonly advice =
    "Install with optional dependencies, or put `stele` on PATH: `go install ./cmd/stele` in a checkout of stele";
}
