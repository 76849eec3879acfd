"use strict";
// Pictures of conversations. Messages name them by the hash of their data: URLs; each is kept once, in a database of the
// browser, or as long as the page where it has none.
const Pictures = (() => {
  const TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"];
  const STORE = "pictures";
  // What servers take unless they say otherwise.
  let limits = { bytes: 20 * 2 ** 20, pixels: 64e6, side: 16384 };
  const urls = new Map();
  let opened;

  // ---- kept

  function database() {
    opened ??= new Promise((done) => {
      try {
        const asked = indexedDB.open("lamina", 1);
        asked.onupgradeneeded = () => asked.result.createObjectStore(STORE);
        asked.onsuccess = () => done(asked.result);
        asked.onerror = () => done(null);
      } catch {
        done(null);
      }
    });
    return opened;
  }

  async function ask(mode, use) {
    const found = await database();
    if (!found) return undefined;
    return new Promise((done, failed) => {
      const asked = use(found.transaction(STORE, mode).objectStore(STORE));
      asked.onsuccess = () => done(asked.result);
      asked.onerror = () => failed(asked.error);
    });
  }

  // 106 bits of a hash. Browsers keep their own hashes from pages that come over plain http from another machine.
  function hashOf(text) {
    const sums = [0x9e3779b1, 0x85ebca6b, 0xc2b2ae35, 0x27d4eb2f];
    const factors = [0x85ebca77, 0xc2b2ae3d, 0x165667b1, 0x9e3779b1];
    for (let i = 0; i < text.length; i++) {
      const at = i & 3;
      sums[at] = Math.imul(sums[at] ^ text.charCodeAt(i), factors[at]);
      sums[at] ^= sums[(at + 1) & 3] >>> 15;
    }
    return `${text.length.toString(36)}-${sums.map((sum) => (sum >>> 0).toString(36)).join("-")}`;
  }

  // Keeps a picture from now on, and gives its hash.
  function keep(url) {
    const hash = hashOf(url);
    if (!urls.has(hash)) {
      urls.set(hash, url);
      ask("readwrite", (store) => store.put(url, hash)).catch(() => notice("The browser's storage is full: a picture is kept until this page is closed."));
    }
    return hash;
  }

  // Brings pictures from the database.
  async function load(hashes) {
    const missing = hashes.filter((hash) => !urls.has(hash));
    const found = await Promise.all(missing.map((hash) => ask("readonly", (store) => store.get(hash)).catch(() => undefined)));
    missing.forEach((hash, index) => found[index] && urls.set(hash, found[index]));
  }

  // Forgets all pictures but those with `hashes`.
  async function sweep(hashes) {
    const wanted = new Set(hashes);
    const keys = (await ask("readonly", (store) => store.getAllKeys())) ?? [];
    const gone = keys.filter((key) => !wanted.has(key));
    await Promise.all(gone.map((key) => ask("readwrite", (store) => store.delete(key))));
  }

  const isPicture = (url) => typeof url === "string" && /^data:image\/[a-z+.-]+;base64,/.test(url);
  // Sounds are kept in the same place.
  const of = (conversations) => conversations.flatMap((c) => c.messages.flatMap((m) => [...(m.images ?? []), ...(m.sounds ?? [])]));

  // ---- read

  function dataUrl(blob) {
    return new Promise((done, failed) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result);
      reader.onerror = () => failed(reader.error);
      reader.readAsDataURL(blob);
    });
  }

  // The sides of a picture that is within the limits.
  function sidesWithin(width, height, { pixels, side }) {
    const scale = Math.min(1, side / Math.max(width, height), Math.sqrt(pixels / (width * height)));
    const scaled = (length) => Math.max(1, Math.floor(length * scale));
    return scale < 1 ? [scaled(width), scaled(height)] : [width, height];
  }

  // A file as the server takes it: as it is, unless it is too large or of a kind that servers do not read.
  async function read(file) {
    const picture = await createImageBitmap(file).catch(() => null);
    if (!picture) throw new Error(`${file.name}: this is no picture that the browser can read.`);
    const [width, height] = sidesWithin(picture.width, picture.height, limits);
    if (width === picture.width && file.size <= limits.bytes && TYPES.includes(file.type)) return dataUrl(file);
    return dataUrl(await drawn(picture, width, height));
  }

  // As JPEG, smaller until its bytes are within the limit.
  async function drawn(picture, width, height) {
    const canvas = el("canvas", { width, height });
    const pen = canvas.getContext("2d");
    pen.fillStyle = "#ffffff";
    pen.fillRect(0, 0, width, height);
    pen.drawImage(picture, 0, 0, width, height);
    const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.92));
    if (!blob) throw new Error("The browser cannot make this picture smaller.");
    if (blob.size <= limits.bytes || width * height < 4096) return blob;
    return drawn(picture, Math.ceil(width * 0.7), Math.ceil(height * 0.7));
  }

  // The pictures among what was pasted or dropped.
  function among(transfer) {
    return [...(transfer?.files ?? [])].filter((file) => file.type.startsWith("image/"));
  }

  return {
    keep,
    load,
    sweep,
    read,
    among,
    of,
    isPicture,
    dataUrl,
    hashOf,
    sidesWithin,
    urlOf: (hash) => urls.get(hash),
    learn: (told) => (limits = { ...limits, ...told }),
  };
})();
