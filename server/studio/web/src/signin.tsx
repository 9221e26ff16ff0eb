// Who a person is, where the server asks for a key.

import { useState } from "preact/hooks";
import { hasKey, setKey } from "./api";

export function SignIn({ again }: { again: () => void }) {
  const [error, setError] = useState(hasKey() ? "The server does not take this key." : undefined);
  return (
    <main class="signin">
      <form
        onSubmit={(e) => {
          e.preventDefault();
          const key = String(new FormData(e.target as HTMLFormElement).get("key") ?? "").trim();
          if (!/^[\x20-\x7e]+$/.test(key)) return setError("A key has letters, digits and signs alone.");
          setKey(key);
          again();
        }}
      >
        <h1>Sign in</h1>
        <label class="field">
          Key or token <span class="note">Ask whoever runs this server for one.</span>
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
