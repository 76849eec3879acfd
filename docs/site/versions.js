// The menu of versions, from `versions.json` beside the folders of all versions, and a banner on pages of old ones.
(() => {
  const script = document.currentScript ?? document.querySelector('script[src*="versions.js"]');
  const root = new URL("../../", script.src);
  const here = new URL("../", script.src).pathname.split("/").filter(Boolean).pop();
  const page = location.pathname.slice(new URL("../", script.src).pathname.length);
  if (!location.protocol.startsWith("http")) return;
  fetch(new URL("versions.json", root))
    .then((answer) => (answer.ok ? answer.json() : []))
    .then((versions) => {
      if (!versions.length) return;
      const menu = document.createElement("select");
      menu.className = "lamina-version";
      menu.setAttribute("aria-label", "Version");
      for (const { name, folder } of versions) {
        menu.add(new Option(name, folder, false, folder === here));
      }
      menu.addEventListener("change", () => {
        location.href = new URL(`${menu.value}/${page}`, root).href;
      });
      document.querySelector(".md-header__title")?.after(menu);
      const own = versions.find((version) => version.folder === here);
      if (own?.old) {
        const note = document.createElement("div");
        note.className = "lamina-old";
        note.textContent = `This is Lamina ${own.name}. `;
        const link = document.createElement("a");
        link.href = new URL(`latest/${page}`, root).href;
        link.textContent = "The same page of the newest version";
        note.append(link);
        document.body.prepend(note);
      }
    });
})();
