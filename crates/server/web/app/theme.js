// Before the first paint, so that a chosen theme never flashes. A classic script: modules come later.
try {
  const { theme } = JSON.parse(localStorage.getItem('holdpoint.settings') || '{}');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // The system's theme it is.
}
