// Who a person is, where the server asks for a key.

import { useState } from "preact/hooks";
import { hasKey, setKey } from "./api";

export function SignIn({ again }: { again: () => void }) {
  const [error, setError] = useState(hasKey() ? "The server does not take this key." : undefined);
  return (
    <main class="signin">
      <h1 class="unseen">Sign in</h1>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          const key = String(new FormData(e.target as HTMLFormElement).get("key") ?? "").trim();
          if (!/^[\x20-\x7e]+$/.test(key)) return setError("A key has letters, digits and signs alone.");
          setKey(key);
          again();
        }}
      >
        <label class="field">
          This server asks for a key or a token, which you have from those who run it.
          <input name="key" type="password" autocomplete="current-password" autofocus />
        </label>
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
        <div class="buttons">
          <button type="submit" class="primary">
            Sign in
          </button>
        </div>
      </form>
    </main>
  );
}
